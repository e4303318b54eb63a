// The main loop of a product in 3xTF32: float32 operands on tensor cores, at nearly float32's precision.
//
// The instruction reads the upper 19 bits of a float, its `head`. The `rest` = value - head has 13 digits, of which
// a second operand keeps 11. Of the four products of heads and rests three are summed: rest * rest is
// below 2^-20 of the product (M. Fasi, N. Higham, M. Mikaitis, T. Mary: Numerical behavior of NVIDIA tensor cores,
// PeerJ Comput. Sci. 2021, on the units; H. Ootomo, R. Yokota: Recovering single precision accuracy from Tensor
// Cores, IJHPCA 2022, on the splitting). The units cut sums off where float32 rounds them, so they sum two
// steps, 64 terms, and these are added up by ordinary additions.
//
// Mapping: the two multiplying warpgroups write the rests beside the operands, of the next step while the units
// multiply this one; what an operand's layout is does not matter, as a rest lies where its value does.
// Traffic in shared memory: an operand is read once more and its rest written once, for three times
// the multiplications.
// An infinity becomes a NaN, as in other algorithms that subtract.
#pragma once

#include "kernels/rasters.cuh"
#include "kernels/wgmma.cuh"
#include "kernels/wgmma_operands.cuh"

namespace duet {

#if DUET_HAS_WGMMA

/// Of `bytes` of floats, by `threads` threads of number tid.
template <int bytes, int threads>
__device__ __forceinline__ void write_rests(const char* values, char* rests, int tid) {
  const auto rest = [](float value) {
    return tf32_rounded(value - __uint_as_float(__float_as_uint(value) & 0xffffe000u));
  };
  static_assert(bytes % (threads * 16) == 0);
#pragma unroll
  for (int i = 0; i < bytes / 16 / threads; ++i) {
    const int at = (tid + i * threads) * 16;
    const float4 v = *reinterpret_cast<const float4*>(values + at);
    *reinterpret_cast<float4*>(rests + at) = {rest(v.x), rest(v.y), rest(v.z), rest(v.w)};
  }
}

/// What a step multiplies: operands and their rests, this warpgroup's 64 rows of A.
struct SplitStep {
  const char *a, *rest_a, *b, *rest_b;
};

/// d = the products of a step, or d += them.
template <int n>
__device__ __forceinline__ void multiply_split(float (&d)[n / 2], const SplitStep& from,
                                               bool adds) {
  constexpr int kTerms = 32;  // bytes of an instruction's
#pragma unroll
  for (int k = 0; k < kRowBytes; k += kTerms) {
    using Product = Wgmma<float, n, false, false>;
    const uint64_t a = matrix_descriptor(from.a + k, 0), b = matrix_descriptor(from.b + k, 0);
    Product::multiply(d, matrix_descriptor(from.rest_a + k, 0), b, adds || k > 0);
    Product::multiply(d, a, matrix_descriptor(from.rest_b + k, 0), true);
    Product::multiply(d, a, b, true);
  }
}
/// The same of the sums of A's rows.
__device__ __forceinline__ void sum_split_rows(float (&d)[4], const SplitStep& from,
                                               const void* ones, bool adds) {
  const uint64_t b = matrix_descriptor(ones, 0);
#pragma unroll
  for (int k = 0; k < kRowBytes; k += 32) {
    Wgmma<float, 8, false, false>::multiply(d, matrix_descriptor(from.rest_a + k, 0), b,
                                            adds || k > 0);
    Wgmma<float, 8, false, false>::multiply(d, matrix_descriptor(from.a + k, 0), b, true);
  }
}

template <int n>
__device__ __forceinline__ void add_settled(float (&sum)[n], float (&d)[n]) {
  wgmma_settle(d);
#pragma unroll
  for (int i = 0; i < n; ++i) sum[i] += d[i];
}

/// The sums of `count` steps, and of A's rows if they are wanted, of a warpgroup of number `group`.
template <class Tile, bool kSums, class Smem>
__device__ __forceinline__ void multiply_split_steps(Smem& smem, int group, int count, bool sums,
                                                     float (&sum)[Tile::kN / 2],
                                                     float (&row_sums)[4]) {
  const int tid = threadIdx.x;
  float d[Tile::kN / 2], d_rows[4];
#pragma unroll
  for (float& value : sum) value = 0.f;
#pragma unroll
  for (float& value : row_sums) value = 0.f;
  int stage = 0, phase = 0;
  const auto prepare = [&] {  // the rests of `stage`
    auto& at = smem.stage[stage];
    smem.full[stage].wait(phase);
    write_rests<Tile::kM * kRowBytes, Tile::kMultipliers>(at.a, at.rest_a, tid);
    write_rests<Tile::kN * kRowBytes, Tile::kMultipliers>(at.b, at.rest_b, tid);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  };
  const auto begin_step = [&](int i, bool adds) {  // and what the next one reads; its stage
    const int now = stage, rows = group * kPanel * kRowBytes;
    auto& at = smem.stage[now];
    const SplitStep from{at.a + rows, at.rest_a + rows, at.b, at.rest_b};
    wait_multipliers<Tile>();  // the rests are written
    wgmma_begin();
    multiply_split<Tile::kN>(d, from, adds);
    if (kSums && sums) sum_split_rows(d_rows, from, smem.ones, adds);
    wgmma_commit();
    if (++stage == Tile::kStages) stage = 0, phase ^= 1;
    if (i + 1 < count) prepare();
    return now;
  };
  const auto end_step = [&](int at) {
    if (tid % 128 == 0) smem.empty[at].arrive();
  };
  prepare();
  for (int i = 0; i < count; i += 2) {
    const int first = begin_step(i, false);
    if (i + 1 < count) {
      const int second = begin_step(i + 1, true);
      wgmma_wait<1>();
      end_step(first);
      wgmma_wait<0>();
      end_step(second);
    } else {
      wgmma_wait<0>();
    }
    add_settled(sum, d);
    if (kSums) add_settled(row_sums, d_rows);
  }
}

#endif  // DUET_HAS_WGMMA

}  // namespace duet
