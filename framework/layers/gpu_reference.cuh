// What the references on a GPU share.
#pragma once

#include <cstdint>
#include <type_traits>

#include "device/check.h"
#include "device/context.h"

namespace duet::gpu_reference {

constexpr int kThreads = 256;  // of every block

/// Queues `blocks` blocks of `kernel`.
template <class... Parameters>
void launch_blocks(Context& context, int64_t blocks, void (*kernel)(Parameters...),
                   const std::type_identity_t<Parameters>&... arguments) {
  kernel<<<static_cast<unsigned>(blocks), kThreads, 0, context.stream()>>>(arguments...);
  DUET_LAUNCHED();
}
/// Queues as many blocks as hold `threads`; thread_index() tells them apart.
template <class... Parameters>
void launch_threads(Context& context, int64_t threads, void (*kernel)(Parameters...),
                    const std::type_identity_t<Parameters>&... arguments) {
  launch_blocks(context, (threads + kThreads - 1) / kThreads, kernel, arguments...);
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
