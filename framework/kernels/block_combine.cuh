// Sums within a block in which thread t works on column t % lanes: one sum a column. The order is
// always the same, so that two runs give the same bits.
#pragma once

#include <cuda_runtime.h>

namespace duet {

constexpr int kCombineThreads = 256;  // of every block that combines
constexpr int kCombineWarps = kCombineThreads / 32;

/// A neighbour's value; every word of T travels by itself.
template <class T>
__device__ __forceinline__ T shuffle_xor(const T& value, int step) {
  static_assert(sizeof(T) % sizeof(float) == 0);
  T result;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / sizeof(float)); ++i) {
    reinterpret_cast<float*>(&result)[i] =
        __shfl_xor_sync(0xFFFFFFFFu, reinterpret_cast<const float*>(&value)[i], step);
  }
  return result;
}

// region warp
/// Over the threads of a warp whose numbers are equal modulo `lanes`, a power of two up to 32.
/// combine(a, b) is a sum of any kind. Lanes 0 to lanes - 1 have the result. REQUIRES: the whole
/// warp calls.
template <class T, class Combine>
__device__ __forceinline__ T warp_combine(T value, int lanes, Combine combine) {
  for (int step = lanes; step < 32; step *= 2) value = combine(value, shuffle_xor(value, step));
  return value;
}
// end warp

/// The same over the block; every thread gets the result. REQUIRES: the whole block of
/// kCombineThreads calls.
template <class T, class Combine>
__device__ __forceinline__ T block_combine(T value, int lanes, Combine combine) {
  __shared__ T warps[kCombineWarps][32];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  // region block
  value = warp_combine(value, lanes, combine);
  __syncthreads();  // `warps` may still be read from the call before
  if (lane < lanes) warps[warp][lane] = value;
  __syncthreads();
  value = warps[0][lane % lanes];
#pragma unroll
  for (int w = 1; w < kCombineWarps; ++w) value = combine(value, warps[w][lane % lanes]);
  // end block
  return value;
}

}  // namespace duet
