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

}  // namespace duet
