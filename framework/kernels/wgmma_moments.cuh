// The moments by column of a product (wgmma_product.cuh), from the registers that have its sums.
#pragma once

#include "kernels/moment_parts.cuh"
#include "kernels/wgmma_product.cuh"

namespace duet {

/// A WgmmaResult that also leaves the moments of what it stores, where `moments` has parts: a row of tiles is one.
template <Layout kLayout, class T>
struct WgmmaMomentsResult : WgmmaResult<kLayout, T> {
  ChannelMoments moments;

  template <class Tile, class A>
  __device__ __forceinline__ void store(const float (&d)[Tile::kN / 2], const A& a,
                                        const typename A::Start& start, const WgmmaPlace& place,
                                        const WgmmaTileMemory<Tile>& memory) const {
    // None has a place where nobody asks for moments.
    if (place.row < moments.parts) leave<Tile>(d, a, start, place);
    WgmmaResult<kLayout, T>::template store<Tile>(d, a, start, place, memory);
  }

 private:
  // A lane's two rows are joined, and then those of the eight lanes that have the same columns: of 32 columns, of which
  // each has eight, two lanes keep half each and give the other half away, until each lane has one of all 16 rows.
  template <class Tile, class A>
  __device__ __forceinline__ void leave(const float (&d)[Tile::kN / 2], const A& a,
                                        const typename A::Start& start,
                                        const WgmmaPlace& place) const {
    constexpr int kN = Tile::kN, kWarps = Tile::kMultipliers / 32, kGroup = 32;
    static_assert(kN % kGroup == 0 && kN <= Tile::kMultipliers);
    __shared__ WarpMoments<kWarps, kN> warps;
    const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32, n0 = place.column * kN;
    bool inside[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int image, pixel;
      inside[i] = a.locate(start, my_row(i), image, pixel);
    }
    float count = inside[0];
    const JoinShares of_rows(count, inside[1]);
    float other = __shfl_xor_sync(~0u, count, 16);
    const JoinShares of_16(count, other);
    other = __shfl_xor_sync(~0u, count, 8);
    const JoinShares of_8(count, other);
    other = __shfl_xor_sync(~0u, count, 4);
    const JoinShares of_4(count, other);
    wait_multipliers<Tile>();  // what a tile before left has been read
#pragma unroll
    for (int first = 0; first < kN; first += kGroup) {
      float mean[kGroup / 4], squares[kGroup / 4];
#pragma unroll
      for (int k = 0; k < kGroup / 4; k += 2) {
        const float* const at = d + first / 2 + 2 * k;
        const StoredPair<T> upper(at[0], at[1]), lower(at[2], at[3]);
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          // Rows outside may have been multiplied by anything.
          mean[k + e] = inside[0] ? upper[e] : 0.f;
          squares[k + e] = 0.f;
          of_rows.join(mean[k + e], squares[k + e], inside[1] ? lower[e] : 0.f, 0.f);
        }
      }
      halve<4>(mean, squares, 16, of_16);
      halve<2>(mean, squares, 8, of_8);
      halve<1>(mean, squares, 4, of_4);
      const int mine = lane / 16 * 16 + lane / 8 % 2 * 8 + lane % 4 * 2 + lane / 4 % 2;
      warps.of[warp][first + mine] = {mean[0], squares[0]};
    }
    if (lane == 0) warps.counts[warp] = count;
    wait_multipliers<Tile>();
    if (tid < kN && n0 + tid < this->columns) warps.leave(moments, n0, tid, place.row);
  }

  /// Of 2 * `half` columns this lane keeps the lower or the upper half, joined with those of lane ^ bit.
  template <int half, int count>
  static __device__ __forceinline__ void halve(float (&mean)[count], float (&squares)[count],
                                               int bit, const JoinShares& shares) {
    const bool upper = threadIdx.x & bit;
#pragma unroll
    for (int k = 0; k < half; ++k) {
      const float given_mean = upper ? mean[k] : mean[k + half];
      const float given_squares = upper ? squares[k] : squares[k + half];
      if (upper) mean[k] = mean[k + half], squares[k] = squares[k + half];
      shares.join(mean[k], squares[k], __shfl_xor_sync(~0u, given_mean, bit),
                  __shfl_xor_sync(~0u, given_squares, bit));
    }
  }
};

}  // namespace duet
