// Seconds between two points of a context's work: events on its stream on a GPU, the steady clock
// on the CPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/context.h"

namespace duet {

/// The steady clock.
double now_seconds();

class Elapsed {
 public:
  /// Seconds since it was made; at least 0, also in a virtual machine that was suspended.
  double seconds() const { return std::max(0.0, now_seconds() - start_); }

 private:
  double start_ = now_seconds();
};

/// 0 if no time has passed.
inline double per_second(int64_t count, double seconds) {
  return seconds > 0.0 ? static_cast<double>(count) / seconds : 0.0;
}

class Stopwatch {
 public:
  /// REQUIRES: the context outlives this.
  explicit Stopwatch(Context& context);
  ~Stopwatch();
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  void start();
  /// Waits for the work queued since start() and returns how long it took.
  double stop();

 private:
  Context& context_;
  void* begin_ = nullptr;  // events, on a GPU
  void* end_ = nullptr;
  double start_ = 0;  // on the CPU
};

}  // namespace duet
