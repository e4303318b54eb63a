// Chunks of transformed filters on their way into a block of a Winograd kernel.
#pragma once

#include "kernels/bulk_copy.cuh"

namespace duet {

/// By bulk copies kStages - 1 chunks ahead, each announced on a stage's barrier.
template <int kStages>
struct WinogradCopies {
  CopyBarrier full[kStages];

  /// By all threads.
  __device__ __forceinline__ void init() {
    if (threadIdx.x == 0)
      for (CopyBarrier& barrier : full) barrier.init();
    __syncthreads();
  }
  /// By one thread: `bytes` of a chunk; the barrier counts `others` as well.
  __device__ __forceinline__ void start(int chunk, float* to, const float* from, uint32_t bytes,
                                        uint32_t others = 0) {
    CopyBarrier& barrier = full[chunk % kStages];
    barrier.expect(bytes + others);
    bulk_copy(to, from, bytes, barrier);
  }
  /// By all threads.
  __device__ __forceinline__ void wait(int chunk) const {
    full[chunk % kStages].wait(chunk / kStages);
  }
};

/// Which chunks all warps have prepared: one that has may go on, half a chunk before the others, so that some
/// load while others multiply. The chunk that is prepared has room beside the two that are multiplied.
struct WinogradPrepared {
  CopyBarrier all;

  /// By one thread, before a __syncthreads().
  __device__ __forceinline__ void init(int threads) { all.init(threads / 32); }
  /// By all threads, once a chunk.
  __device__ __forceinline__ void arrive() {
    __syncwarp();
    if (threadIdx.x % 32 == 0) all.arrive();
  }
  __device__ __forceinline__ void wait(int chunk) const { all.wait(chunk); }
};

}  // namespace duet
