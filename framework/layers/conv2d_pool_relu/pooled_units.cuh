// How forward by images eight side by side ends, where an implementation pools.
#pragma once

#include "layers/conv2d/block_convolution.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {

/// A result of wgmma_blocks.cuh that pools, in registers: planes, and argmax as packed_argmax.cuh has it.
struct PooledUnits {
  static constexpr int kWarps = 4, kFilters = 128, kImages = ImageBlocks::kImages;
  static constexpr int kPitch = kFilters * kWarps + 1;  // of an image's values, [filter][window]
  static constexpr int kBytes = round_up(kImages * kPitch * int(sizeof(float)), 16);
  float* y;
  uint32_t* argmax;
  const float* bias;
  int images, filters, pool_h, pool_w;

  static PooledUnits of(const Conv2dProblem& d, const Tensor& b, const Tensor& y,
                        const Tensor& state) {
    return {.y = y.data<float>(),
            .argmax = state.data<uint32_t>(),
            .bias = b.data<float>(),
            .images = d.n,
            .filters = d.k,
            .pool_h = d.p / 2,
            .pool_w = d.q / 2};
  }

  template <class Tile>
  __device__ __forceinline__ void store(const float (&d)[Tile::kRows][Tile::kN / 2],
                                        const BlockUnits& units, int mine, int here, int group,
                                        int filter0, float* values) const {
    static_assert(Tile::kN <= kFilters && Tile::kRows % 2 == 0);
    const int member = threadIdx.x % 128, lane = member % 32, warp = member / 32;
    const int all = pool_h * pool_w;
    const BlockUnits::Place own = units.place(mine + min(warp, here - 1));
    const int own_image = own.group * kImages + lane / 4;
    // A thread stores the windows of unit member % 4.
    const int unit = member % kWarps;
    const BlockUnits::Place to = units.place(mine + min(unit, here - 1));
    const int image_count = min(kImages, images - to.group * kImages);
#pragma unroll
    for (int v = 0; v < Tile::kRows / 2; ++v) {
      const int own_row = own.strip * (Tile::kRows / 2) + v;
      const bool places = warp < here && own_image < images && own_row < pool_h;
      uint32_t* const words = argmax +
                              (size_t(own_image) * argmax_groups(filters) + filter0 / 8) * all +
                              own_row * pool_w + own.pair;
      Tile::wait_group(group);
#pragma unroll
      for (int j = 0; j < Tile::kN / 8; ++j) {
        uint32_t word = 0;
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int filter = 8 * j + lane % 4 * 2 + e, k = filter0 + filter;
          const float b = bias != nullptr && k < filters ? __ldg(bias + k) : 0.f;
          const PooledValue pooled =
              pool_window(d[2 * v][4 * j + e] + b, d[2 * v][4 * j + 2 + e] + b,
                          d[2 * v + 1][4 * j + e] + b, d[2 * v + 1][4 * j + 2 + e] + b);
          values[lane / 4 * kPitch + filter * kWarps + warp] = pooled.value;
          word |= pooled.code << (4 * e + 8 * (lane % 4));
        }
        word |= __shfl_xor_sync(~0u, word, 1);
        word |= __shfl_xor_sync(~0u, word, 2);
        if (places && lane % 4 == j % 4 && filter0 + 8 * j < filters) words[j * all] = word;
      }
      Tile::wait_group(group);
      const int row = to.strip * (Tile::kRows / 2) + v;
      if (unit >= here || row >= pool_h) continue;
      float* const first =
          y + (size_t(to.group) * kImages * filters + filter0) * all + row * pool_w + to.pair;
      constexpr int kStep = 128 / kWarps, kRun = Tile::kN / kStep;
      const float* const of_member = values + member;
      float* const of_first = first + (member / kWarps) * all;
      const int count = min(kRun, (filters - filter0 - member / kWarps + kStep - 1) / kStep);
#pragma unroll 2
      for (int image = 0; image < image_count; ++image) {
        float run[kRun];
#pragma unroll
        for (int i = 0; i < kRun; ++i) run[i] = of_member[image * kPitch + i * 128];
#pragma unroll
        for (int i = 0; i < kRun; ++i)
          if (i < count) of_first[(image * filters + i * kStep) * all] = run[i];
      }
    }
  }
};

/// Of an odd last row or column nothing is pooled, and no gradient comes from there.
inline Conv2dProblem pooled_part(Conv2dProblem d) {
  d.p = d.p / 2 * 2;
  d.q = d.q / 2 * 2;
  return d;
}

}  // namespace duet
