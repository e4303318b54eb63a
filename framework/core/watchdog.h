// Ends a process whose GPU, or an implementation on the CPU, never finishes what it was given.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace duet {

/// While one of these lives, its thread waits for the GPU. Costs tens of nanoseconds.
class GpuWait {
 public:
  GpuWait();
  ~GpuWait();
  GpuWait(const GpuWait&) = delete;
  GpuWait& operator=(const GpuWait&) = delete;
};

/// While it lives, one GpuWait, or one call of an implementation (Running, but for references),
/// that lasts longer than `patience` ends the process with kExitFailure, after a line to standard
/// error, or in a child (core/child.h) a note to its parent, that names the implementation that ran
/// last: what never ends cannot be stopped otherwise.
/// Time in which the process was stopped does not count. No call that Duet makes takes minutes.
class Watchdog {
 public:
  explicit Watchdog(std::chrono::milliseconds patience = std::chrono::minutes(5));
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(std::chrono::milliseconds patience);

  std::mutex mutex_;
  std::condition_variable ended_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace duet
