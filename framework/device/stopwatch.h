// Seconds between two points of a context's work: events on its stream on a GPU, the steady clock
// on the CPU.
#pragma once

#include "device/context.h"

namespace duet {

/// The steady clock.
double now_seconds();

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
