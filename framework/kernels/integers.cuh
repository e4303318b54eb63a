// Whole numbers: rounding up, and division by numbers found at launch.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "device/attribute.h"

namespace duet {

__host__ __device__ inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int unit) { return (a + unit - 1) / unit * unit; }

/// Multiprocessors of the current device.
inline int multiprocessor_count() { return gpu_attribute(cudaDevAttrMultiProcessorCount); }

/// Division of 0 <= n < 2^31 by a constant found at launch.
struct FastDivisor {
  uint32_t divisor = 1, multiplier = 0, shift = 0;

  FastDivisor() = default;
  explicit FastDivisor(int d) : divisor(static_cast<uint32_t>(d)) {
    if (d == 1) return;
    while ((uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << (31 + shift)) + divisor - 1) / divisor);
    shift -= 1;
  }
  __device__ __forceinline__ void divmod(int n, int& quotient, int& remainder) const {
    quotient = divisor == 1 ? n : int(__umulhi(uint32_t(n), multiplier) >> shift);
    remainder = n - quotient * int(divisor);
  }
};

}  // namespace duet
