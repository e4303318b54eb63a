// The main loop of a product in 3xTF32: float32 operands on tensor cores, at float32's error.
//
// A value is head + rest, each of 11 digits. The instruction reads the upper 19 bits of a float: of B its own
// values are the heads, cut off, and the rests lie beside them; A's heads are rounded. Of the four products of
// heads and rests three are summed: rest * rest is below 2^-21 of the whole, of either sign (H. Ootomo, R. Yokota:
// Recovering single precision accuracy from Tensor Cores, IJHPCA 2022). The units cut sums off where float32 rounds
// them (M. Fasi, N. Higham, M. Mikaitis, S. Pranesh: Numerical behavior of NVIDIA tensor cores, PeerJ Comput. Sci. 2021),
// so they sum one step of 32 terms, the small products first, and steps are added up by ordinary additions.
//
// Mapping: three warps beside the copying one write the rests of B, a stage at a time as it comes, and pass it on by
// a third barrier, `split`; where B lies turned they turn it on the way (wgmma_turned.cuh). A
// multiplying warpgroup takes its rows of A to registers, heads and rests. It is held up while the units
// work on its instructions, so that the two take turns: one multiplies while the other adds up and loads.
// Traffic in shared memory: of 128 x 128 tiles the units read two thirds of what they could of B and its rests;
// with rows of A there as well it would be their limit.
// An infinity becomes a NaN, as in other algorithms that subtract.
#pragma once

#include "kernels/wgmma.cuh"
#include "kernels/wgmma_operands.cuh"
#include "kernels/wgmma_turned.cuh"

namespace duet {

#if DUET_HAS_WGMMA

/// By all threads of the copying warps' group, and of each multiplying warpgroup: 3 * 128 threads begin with 168.
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 56;");
}
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 224;");
}

/// To the nearest of 11 digits, by the bits: a NaN may come out as zero, and then its rest is a NaN.
__device__ __forceinline__ float rounded_head(float value) {
  return __uint_as_float((__float_as_uint(value) + 0x1000u) & 0xffffe000u);
}
/// By `threads` threads of number tid: of all steps the rests of B.
template <class Tile, int threads, class Smem>
__device__ __forceinline__ void write_rests(Smem& smem, WgmmaRing<Tile>& ring, int count, int tid) {
  constexpr int kPieces = Tile::kN * kRowBytes / 16;
  for (int i = 0; i < count; ++i) {
    // region rests
    auto& at = smem.stage[ring.stage];
    smem.full[ring.stage].wait(ring.phase);
    const auto* const values = reinterpret_cast<const float4*>(at.b);
    auto* const rests = reinterpret_cast<float4*>(at.rest_b);
#pragma unroll 4
    for (int piece = tid; piece < kPieces; piece += threads) {
      const float4 v = values[piece];
      rests[piece] = {rest_of_cut(v.x), rest_of_cut(v.y), rest_of_cut(v.z), rest_of_cut(v.w)};
    }
    fence_async_proxy();
    smem.split[ring.stage].arrive();
    // end rests
    ring.advance();
  }
}

/// A thread's part of 64 rows of A of a step, by the instruction, for WgmmaRows.
struct SplitRows {
  static constexpr int kInstructions = RowValues::kInstructions;
  uint32_t head[kInstructions][4], rest[kInstructions][4];

  __device__ __forceinline__ void split(const RowValues& values) {
#pragma unroll
    for (int k = 0; k < kInstructions; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float of_value = rounded_head(values.of[k][i]);
        head[k][i] = __float_as_uint(of_value);
        rest[k][i] = __float_as_uint(values.of[k][i] - of_value);
        // Here and not between the instructions, which would have to wait for it.
        asm volatile("" : "+r"(head[k][i]), "+r"(rest[k][i])::"memory");
      }
    }
  }
};

/// d = the products of a step, the small ones first.
template <int n>
__device__ __forceinline__ void multiply_split(float (&d)[n / 2], const SplitRows& a, const char* b,
                                               const char* rest_b) {
  // region split
#pragma unroll
  for (int k = 0; k < SplitRows::kInstructions; ++k) {
    WgmmaRows<n>::multiply(d, a.head[k], matrix_descriptor(rest_b + k * 32, 0), k > 0);
    WgmmaRows<n>::multiply(d, a.rest[k], matrix_descriptor(b + k * 32, 0), true);
  }
#pragma unroll
  for (int k = 0; k < SplitRows::kInstructions; ++k)
    WgmmaRows<n>::multiply(d, a.head[k], matrix_descriptor(b + k * 32, 0), true);
  // end split
}

/// The sums of `count` steps, and of A's rows, of a warpgroup of number `group`.
template <class Tile, class A, class Smem>
__device__ __forceinline__ void multiply_split_steps(Smem& smem, WgmmaRing<Tile>& ring, int group,
                                                     int count, float (&sum)[Tile::kN / 2],
                                                     float (&row_sums)[4]) {
  float d[Tile::kN / 2], my_row_sums[2] = {};
#pragma unroll
  for (float& value : sum) value = 0.f;
  RowValues values;
  SplitRows rows;
  const auto load = [&] {
    smem.full[ring.stage].wait(ring.phase);
    values.load<A::kTurned>(smem.stage[ring.stage].a + group * kPanel * kRowBytes);
  };
  load();
  for (int i = 0; i < count; ++i) {
    rows.split(values);
    if constexpr (A::kSums) values.add_to(my_row_sums);
    const WgmmaRing<Tile> now = ring;
    auto& at = smem.stage[now.stage];
    ring.advance();
    if (i + 1 < count) load();  // before this warp is held up
    smem.split[now.stage].wait(now.phase);
    wgmma_begin();
    multiply_split<Tile::kN>(d, rows, at.b, at.rest_b);
    wgmma_commit();
    wgmma_wait<0>();
    smem.release(now.stage);
    wgmma_settle(d);
#pragma unroll
    for (int j = 0; j < Tile::kN / 2; ++j) sum[j] += d[j];
  }
  if constexpr (A::kSums) join_row_sums(my_row_sums, row_sums);
}

#endif  // DUET_HAS_WGMMA

}  // namespace duet
