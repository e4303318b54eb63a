// What the references on a GPU share.
#pragma once

#include <cstdint>

namespace duet::gpu_reference {

constexpr int kThreads = 256;  // of every block

inline unsigned blocks_for(int64_t threads) {
  return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
}
__device__ inline int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
}

/// The sum of every thread's `value`, in thread 0. The order is always the same.
__device__ inline double block_sum(double value) {
  __shared__ double sums[kThreads];
  sums[threadIdx.x] = value;
  __syncthreads();
  for (int half = kThreads / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
    __syncthreads();
  }
  return sums[0];
}

}  // namespace duet::gpu_reference
