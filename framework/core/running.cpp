#include "core/running.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace duet {
namespace {

// A handler reads them: fixed memory, no locks.
char text[256];
std::atomic<size_t> length = 0;
std::atomic<bool> runs = false;
static_assert(std::atomic<size_t>::is_always_lock_free);

constexpr struct {
  int signal;
  const char* name;
} kCrashes[] = {{SIGSEGV, "SIGSEGV (an access to memory that is not its own)"},
                {SIGBUS, "SIGBUS (an access to memory that is not there)"},
                {SIGFPE, "SIGFPE (an integer division by zero)"},
                {SIGILL, "SIGILL (an instruction that this processor does not have)"},
                {SIGABRT, "SIGABRT (abort(), a failed assertion or a damaged heap)"}};

/// One line, written at once.
class Line {
 public:
  Line& operator<<(std::string_view part) {
    const size_t taken = std::min(part.size(), sizeof line_ - size_);
    std::memcpy(line_ + size_, part.data(), taken);
    size_ += taken;
    return *this;
  }
  void write() const { [[maybe_unused]] const ssize_t n = ::write(STDERR_FILENO, line_, size_); }

 private:
  char line_[512];
  size_t size_ = 0;
};

void on_crash(int signal) {
  const auto* crash = std::find_if(std::begin(kCrashes), std::end(kCrashes),
                                   [&](const auto& each) { return each.signal == signal; });
  const std::string_view last(text, length);
  Line line;
  if (runs) {
    line << "error: " << last << " crashed: " << crash->name << "\n";
  } else {
    line << "error: crashed: " << crash->name;
    if (!last.empty()) line << "; " << last << " ran last";
    line << "\n";
  }
  line.write();
  raise(signal);  // SA_RESETHAND: ends the process when the handler returns
}

}  // namespace

Running::Running(std::string_view id, std::string_view type, std::string_view what,
                 std::string_view layer) {
  length = 0;
  size_t size = 0;
  const auto add = [&](std::string_view part) {
    const size_t taken = std::min(part.size(), sizeof text - size);
    std::memcpy(text + size, part.data(), taken);
    size += taken;
  };
  add(id);
  add(" in ");
  add(type);
  add(" ");
  add(what);
  if (!layer.empty()) {
    add(" (layer ");
    add(layer);
    add(")");
  }
  length = size;
  runs = true;
}

Running::~Running() { runs = false; }

std::string Running::last() { return {text, length}; }

void name_crashes() {
  static char stack[64 << 10];  // one that overflowed holds no handler
  const stack_t other = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&other, nullptr);
  for (const auto& crash : kCrashes) {
    struct sigaction before {};
    sigaction(crash.signal, nullptr, &before);
    if ((before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL) continue;
    struct sigaction action {};
    action.sa_handler = on_crash;
    action.sa_flags = SA_RESETHAND | SA_ONSTACK;
    sigaction(crash.signal, &action, nullptr);
  }
}

void write_running(const char* what) {
  const std::string_view last(text, length);
  if (last.empty()) return;
  Line line;
  line << what << last << (runs ? " ran\n" : " ran last\n");
  line.write();
}

}  // namespace duet
