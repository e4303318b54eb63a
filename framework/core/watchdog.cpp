#include "core/watchdog.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include "core/error.h"
#include "core/running.h"

namespace duet {
namespace {

std::atomic<uint64_t> number = 0;  // of the last wait
std::atomic<int> waits = 0;        // that have not ended

[[noreturn]] void end_process(std::chrono::milliseconds patience) {
  const double seconds = std::chrono::duration<double>(patience).count();
  const std::string last = Running::last();
  char text[400];
  if (Running::is_shared()) {  // the parent tells, and may go on
    std::snprintf(text, sizeof text,
                  waits > 0 ? "%s ran last, and the GPU has not finished its work for %g s"
                            : "%s has not ended after %g s",
                  Running::last_id().c_str(), seconds);
    Running::leave_note(text);
    _exit(kExitFailure);
  }
  if (waits > 0) {
    std::snprintf(text, sizeof text,
                  "the GPU has not finished its work for %g s%s%s; nothing more can run on it in "
                  "this process",
                  seconds, last.empty() ? "" : "; last ran ", last.c_str());
  } else {
    std::snprintf(text, sizeof text, "%s has not ended after %g s", last.c_str(), seconds);
  }
  std::fprintf(stderr,
               "error: %s. What was measured before is in the file of --out, if one was named\n",
               text);
  std::fflush(stderr);
  _exit(kExitFailure);  // destructors would wait, too
}

}  // namespace

GpuWait::GpuWait() {
  ++number;
  ++waits;
}

GpuWait::~GpuWait() { --waits; }

Watchdog::Watchdog(std::chrono::milliseconds patience)
    : thread_([this, patience] { watch(patience); }) {}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::watch(std::chrono::milliseconds patience) {
  constexpr int kLooks = 50;  // counted, as a clock goes on where the process stands still
  uint64_t seen = 0;
  int looks = 0;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, patience / kLooks, [this] { return ends_; })) {
    const uint64_t now = number + Running::count();
    looks = (waits > 0 || Running::is_limited()) && now == seen ? looks + 1 : 0;
    seen = now;
    if (looks >= kLooks) end_process(patience);
  }
}

}  // namespace duet
