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
  const std::string last = Running::last();
  std::fprintf(stderr,
               "error: the GPU has not finished its work for %g s%s%s; nothing more can run on it "
               "in this process. What was measured before is in the file of --out, if one was "
               "named\n",
               std::chrono::duration<double>(patience).count(), last.empty() ? "" : "; last ran ",
               last.c_str());
  std::fflush(stderr);
  _exit(kExitFailure);  // destructors would wait for the GPU, too
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
    const uint64_t now = number;
    looks = waits > 0 && now == seen ? looks + 1 : 0;
    seen = now;
    if (looks >= kLooks) end_process(patience);
  }
}

}  // namespace duet
