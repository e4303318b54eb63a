#include "compare/results/outputs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/results/results_json.h"
#include "core/running.h"
#include "core/write_file.h"
#include "device/stopwatch.h"

namespace duet {

bool PartialResults::due() const {
  return !file_.empty() && is_replaced(file_) && now_seconds() >= next_;
}

void PartialResults::write(nlohmann::json results, const std::string& work) {
  const double start = now_seconds();
  results["stopped"] = "the program ended without a word while " + work + " was measured";
  try {
    write_file(file_, file_text(results));
  } catch (const RunError& error) {
    spdlog::warn("{}; what is measured is written at the end only", error.what());
    file_.clear();
  }
  const double end = now_seconds();
  next_ = end + std::max(0.25, 20 * (end - start));
}

std::exception_ptr named_error() {
  try {
    throw;
  } catch (const DeviceError& error) {
    const std::string last = Running::last();
    const std::string named =
        last.empty() ? error.what() : std::string(error.what()) + " (" + last + " ran last)";
    return std::make_exception_ptr(DeviceError(named));
  } catch (...) {
    return std::current_exception();
  }
}

ExitCode write_output(const std::string& file, const std::string& what,
                      const std::function<std::string()>& make) {
  if (file.empty()) return kExitDone;
  try {
    write_file(file, make());
    spdlog::info("{} {}", what, file);
    return kExitDone;
  } catch (const std::exception& error) {
    spdlog::error("{}", message_of(error));
    return exit_code_of(error);
  }
}

}  // namespace duet
