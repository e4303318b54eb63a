#include "compare/measure/measuring_child.h"

#include <unistd.h>

#include <string>

#include "compare/results/outputs.h"
#include "core/error.h"
#include "core/running.h"

namespace duet {

ChildEnd measure_in_child(const std::function<void(const Send&)>& measure, const Send& receive) {
  constexpr char kResult = 'r', kError = 'e';  // what a text begins with; an error's code follows
  std::string error;
  ExitCode code = kExitDone;
  const auto work = [&](const Send& send) {
    try {
      measure([&](const std::string& text) { send(kResult + text); });
    } catch (const UnusableProcessError& unusable) {
      Running::leave_note(unusable.what());
      _exit(kExitFailure);
    } catch (const std::exception&) {
      const std::exception_ptr named = named_error();
      send(std::string{kError, static_cast<char>(exit_code_of(named))} + message_of(named));
    }
  };
  const ChildEnd end = run_in_child(work, [&](const std::string& text) {
    if (text.at(0) == kResult) return receive(text.substr(1));
    code = static_cast<ExitCode>(static_cast<unsigned char>(text.at(1)));
    error = text.substr(2);
  });
  if (code != kExitDone) throw Error(error, code);
  return end;
}

}  // namespace duet
