#include "core/watchdog.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include "core/error.h"
#include "core/number_text.h"
#include "core/running.h"

namespace duet {
namespace {

std::atomic<uint64_t> number = 0;  // of the last wait
std::atomic<int> waits = 0;        // that have not ended

[[noreturn]] void end_process(std::chrono::milliseconds patience) {
  const double seconds = std::chrono::duration<double>(patience).count();
  const std::string time = printed("%g s", seconds), last = Running::last();
  if (Running::is_shared()) {  // the parent tells, and may go on
    Running::leave_note(Running::last_id() +
                        (waits > 0 ? " ran last, and the GPU has not finished its work for "
                                   : " has not ended after ") +
                        time);
    _exit(kExitFailure);
  }
  const std::string text = waits > 0 ? "the GPU has not finished its work for " + time +
                                           (last.empty() ? "" : "; last ran ") + last +
                                           "; nothing more can run on it in this process"
                                     : last + " has not ended after " + time;
  const std::string place = Running::place();
  std::fprintf(
      stderr, "error: %s%s%s. What was measured before is in the file of --out, if one was named\n",
      text.c_str(), place.empty() ? "" : " ", place.c_str());
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
