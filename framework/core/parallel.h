// Loops on several CPU threads.
//
// Why not "#pragma omp parallel for": libgomp's threads spin at the end of every loop until all
// have come. Where other processes keep the cores busy, a thread that is not running holds up the
// others for a whole time slice: a step of 5 ms took 60 ms. Here threads sleep until there is work,
// and the caller takes the parts that nobody else has begun. The same goes for OpenBLAS's own
// threads, which are therefore not used (core/single_threaded_blas.h).
#pragma once

#include <algorithm>
#include <cstdint>

namespace duet {

/// Threads that share a loop, the caller among them: OMP_NUM_THREADS if it is set, else the CPUs
/// that this process may run on. Where the system gives fewer, fewer share it.
int cpu_threads();

/// Multiply-adds, or operations as simple, below which a loop is not worth waking a thread for:
/// about 50 us of work.
inline constexpr int64_t kWorthSharing = 1'000'000;

/// While one lives, loops of this thread that are worth sharing leave out what they have not begun
/// once `stop` returns true, in any thread; nullptr: they never do. What such a loop computes is
/// then not to be used. Within another one it takes that one's place.
class LoopStop {
 public:
  explicit LoopStop(bool (*stop)());
  ~LoopStop();
  LoopStop(const LoopStop&) = delete;
  LoopStop& operator=(const LoopStop&) = delete;

 private:
  bool (*const outer_)();
};

/// While one lives, this thread does its loops alone.
class LoopsAlone {
 public:
  LoopsAlone();
  ~LoopsAlone();
  LoopsAlone(const LoopsAlone&) = delete;
  LoopsAlone& operator=(const LoopsAlone&) = delete;

 private:
  const bool outer_;
};

/// Calls call(body, i) for every i of [0, count) on cpu_threads() threads. For parallel_for.
void share_loop(int64_t count, void (*call)(const void* body, int64_t i), const void* body);

/// Calls body(i) once for every i of [0, count), in no particular order, and returns when all are
/// done. `operations` is the work of the whole loop; little work, and a loop inside another one, is
/// done by the caller alone. What body(i) computes must not depend on the thread: then results are
/// the same bits for any number of threads. body must not throw.
template <class Body>
void parallel_for(int64_t count, int64_t operations, const Body& body) {
  if (count < 2 || operations < kWorthSharing) {
    for (int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  share_loop(
      count, [](const void* b, int64_t i) { (*static_cast<const Body*>(b))(i); }, &body);
}

/// The same for loops over elements: calls body(first, last) for ranges that make up [0, count).
template <class Body>
void parallel_ranges(int64_t count, int64_t operations_each, const Body& body) {
  const int64_t size = std::max<int64_t>(1, kWorthSharing / 4 / operations_each);
  parallel_for((count + size - 1) / size, count * operations_each,
               [&](int64_t i) { body(i * size, std::min(count, (i + 1) * size)); });
}

}  // namespace duet
