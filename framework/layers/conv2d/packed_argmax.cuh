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

/// Codes of eight filters, four bits each, of which 4 to 7 are clipped.
__device__ __forceinline__ uint32_t settled_codes(uint32_t codes) {
  const uint32_t dead = codes & 0x44444444u;
  return codes & ~(dead >> 1 | dead >> 2);
}

/// pool_window() in fewer instructions: floats above 0 are ordered as whole numbers, and all others but NaN come out below 1.
/// Adds the code, times `one`, to `codes`, which need settled_codes(). Above kInfinite the value is a NaN and the code the
/// first one's.
inline constexpr int kInfinite = 0x7f800000;
__device__ __forceinline__ int pool_ordered(float v0, float v1, float v2, float v3, uint32_t one,
                                            uint32_t& codes) {
  const int of[4] = {__float_as_int(v0), __float_as_int(v1), __float_as_int(v2),
                     __float_as_int(v3)};
  const int most = __vimax_s32_relu(__vimax3_s32(of[0], of[1], of[2]), of[3]);
  asm("{\n.reg .pred not0, not1, not2, dead;\n"
      "setp.ne.s32 not0, %1, %4;\nsetp.ne.and.s32 not1, %2, %4, not0;\n"
      "setp.ne.and.s32 not2, %3, %4, not1;\nsetp.eq.s32 dead, %4, 0;\n"
      "@not0 add.u32 %0, %0, %5;\n@not1 add.u32 %0, %0, %5;\n@not2 add.u32 %0, %0, %5;\n"
      "@dead or.b32 %0, %0, %6;\n}"
      : "+r"(codes)
      : "r"(of[0]), "r"(of[1]), "r"(of[2]), "r"(most), "r"(one), "r"(kPoolDead * one));
  return most;
}

/// pool_window() in fewer instructions, for a result that will be stored in bfloat16: a sum's last three bits, which that
/// loses, become 7 - its place, so that the largest, `bits`, brings it along and of equal sums the first is the larger.
/// Compared as whole numbers, which order floats above 0 and put the others below: 8, whose three bits are 0, is clipped.
struct MarkedValue {
  int bits;  // from kInfinite on only marked() of pool_window() is right
  __device__ __forceinline__ float value() const { return __int_as_float(bits & ~7); }
};

__device__ __forceinline__ MarkedValue marked(const PooledValue& pooled) {
  const int mark = pooled.code == kPoolDead ? 0 : 7 - int(pooled.code);
  return {(__float_as_int(pooled.value) & ~7) | mark};
}

/// `clear` is ~7 from where the compiler does not see it: of two constants it makes two instructions.
__device__ __forceinline__ MarkedValue largest_marked(float v0, float v1, float v2, float v3,
                                                      int clear) {
  const auto mark = [&](float v, int place) { return (__float_as_int(v) & clear) | (7 - place); };
  return {__vimax3_s32(__vimax3_s32(mark(v0, 0), mark(v1, 1), mark(v2, 2)), mark(v3, 3), 8)};
}

/// Codes of eight filters from their marks, four bits each.
__device__ __forceinline__ uint32_t codes_of_marks(uint32_t marks) {
  return settled_codes(marks ^ 0x77777777u);
}

}  // namespace duet
