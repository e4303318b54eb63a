// How a fused convolution ends: a 2x2 window of sums -> the pooled, clipped value and where it came
// from. All kernels of conv2d_pool_relu keep that place in the same format, so that any of them can
// run the backward passes of any other's forward.
//
// Four bits a (filter, window): 0..3 = row-major position in the window, kPoolDead = relu clipped
// it, so no gradient flows. Eight consecutive filters share a 32-bit word (filter k in bits
// 4*(k%8) ...); words lie [n][ceil(K/8)][window], whatever the layout of the tensors. Bits of
// filters beyond K mean nothing.
#pragma once

#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/pool2d/pool2d.h"

namespace duet {

inline constexpr uint32_t kPoolDead = 4;

__host__ __device__ inline int argmax_groups(int filters) { return (filters + 7) / 8; }

inline size_t packed_argmax_bytes(const Conv2dProblem& d) {
  return sizeof(uint32_t) * d.n * argmax_groups(d.k) * static_cast<size_t>(d.p / 2) * (d.q / 2);
}

struct PooledValue {
  float value;
  uint32_t code;  // 0..3, or kPoolDead
};

// v in row-major order; the first of equal elements wins, and a NaN over everything.
__device__ __forceinline__ PooledValue pool_window(float v0, float v1, float v2, float v3) {
  const bool right_top = takes_over(v1, v0), right_bottom = takes_over(v3, v2);
  const float top = right_top ? v1 : v0, bottom = right_bottom ? v3 : v2;
  const bool low = takes_over(bottom, top);
  const float best = low ? bottom : top;
  const uint32_t code = low ? (right_bottom ? 3u : 2u) : (right_top ? 1u : 0u);
  const bool dead = best <= 0.f;  // false for NaN
  return {dead ? 0.f : best, dead ? kPoolDead : code};
}

}  // namespace duet
