// When the work on a context's stream ran: marks between pieces of work, read afterwards.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "device/context.h"

namespace duet {

/// Marks are CUDA events; one costs the GPU some microseconds. All are read at the end, so that the
/// host does not wait in between.
class StreamTimes {
 public:
  using Clock = std::chrono::steady_clock;

  /// Waits for the stream and starts the clock. Throws UnsupportedError in a build without CUDA.
  /// REQUIRES: a GPU context that outlives this; nothing is being captured.
  explicit StreamTimes(Context& context);
  ~StreamTimes();
  StreamTimes(const StreamTimes&) = delete;
  StreamTimes& operator=(const StreamTimes&) = delete;

  /// What is queued between hold() and release() waits for release(), and then runs without waiting
  /// for the host. At most a tenth of a second: a stream that is full of work makes the host wait,
  /// and then both would.
  void hold();
  void release();

  /// Queues a mark, on the context's stream or on another one, and returns its number.
  size_t mark(CUstream_st* stream = nullptr);
  /// The times of all marks since zero(). Waits for them.
  std::vector<double> microseconds();
  /// The host's time at which the marks' clock was at 0, true to some microseconds.
  Clock::time_point zero() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace duet
