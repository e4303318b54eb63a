// Parts of a staging launch (mma_staging.cuh) that write ImageBlocks, rounded to tf32, and the weights for their products.
#pragma once

#include "kernels/image_blocks.cuh"
#include "layers/conv2d/mma_staging.cuh"

namespace duet {

/// An image tensor, by tiles of 32 pixels by 16 channels of eight images through shared memory: a value is read once and
/// written once.
template <Layout kLayout>
struct ImageBlockPart {
  static constexpr bool kPlanes = kLayout == Layout::kNCHW;
  static constexpr int kPixels = 32, kChannels = 16, kImages = ImageBlocks::kImages;
  RasterSource<kLayout> from;
  ImageBlocks target;
  float* to;
  int blocks = 0;
  FastDivisor by_width, by_tiles, by_parts;

  ImageBlockPart(const RasterSource<kLayout>& from_, const ImageBlocks& target_, float* to_)
      : from(from_),
        target(target_),
        to(to_),
        by_width(target.width),
        by_tiles(ceil_div(target.height * target.width, kPixels)),
        by_parts(target.channel_blocks() * (ImageBlocks::kChannels / kChannels)) {
    if (to) blocks = target.groups() * int(by_parts.divisor) * int(by_tiles.divisor);
  }

  __device__ __forceinline__ void stage(int block) const {
    // Pitches that keep the lanes of either side of the turn in different banks.
    constexpr int kChannelPitch = kPixels + 1, kImagePitch = kChannels * kChannelPitch + 4;
    __shared__ float values[kImages * kImagePitch];
    int rest, pixel0, part, group;
    by_tiles.divmod(block, rest, pixel0);
    by_parts.divmod(rest, group, part);
    pixel0 *= kPixels;
    const int channel0 = part * kChannels, pixels = target.height * target.width;
    if constexpr (kPlanes) {
      // A thread has one pixel, of every eighth channel of all images.
      static_assert(kStagingThreads % kPixels == 0);
      constexpr int kStep = kStagingThreads / kPixels;
      const int pixel = threadIdx.x % kPixels, first = threadIdx.x / kPixels;
      int row, column;
      by_width.divmod(pixel0 + pixel, row, column);
      row -= target.pad_h, column -= target.pad_w;
      const bool inside =
          uint32_t(row) < uint32_t(from.height) && uint32_t(column) < uint32_t(from.width);
      const int plane = from.height * from.width, image_count = target.images - group * kImages;
      const float* const at = from.from +
                              (size_t(group) * kImages * from.channels + channel0 + first) * plane +
                              row * from.width + column;
      float run[kImages][kChannels / kStep];
#pragma unroll
      for (int image = 0; image < kImages; ++image) {
#pragma unroll
        for (int i = 0; i < kChannels / kStep; ++i) {
          const bool there =
              inside && image < image_count && channel0 + first + i * kStep < target.channels;
          run[image][i] = there ? at[(image * from.channels + i * kStep) * plane] : 0.f;
        }
      }
#pragma unroll
      for (int image = 0; image < kImages; ++image)
#pragma unroll
        for (int i = 0; i < kChannels / kStep; ++i)
          values[image * kImagePitch + (first + i * kStep) * kChannelPitch + pixel] =
              tf32_rounded(run[image][i]);
    } else {
#pragma unroll
      for (int i = 0; i < kImages * kPixels * kChannels / kStagingThreads; ++i) {
        constexpr int kPlane = kPixels * kChannels;
        const int unit = threadIdx.x + i * kStagingThreads;
        const int image = unit / kPlane, in_plane = unit % kPlane;
        const int pixel = kPlanes ? in_plane % kPixels : in_plane / kChannels;
        const int channel = kPlanes ? in_plane / kPixels : in_plane % kChannels;
        int row, column;
        by_width.divmod(pixel0 + pixel, row, column);
        row -= target.pad_h, column -= target.pad_w;
        const int n = group * kImages + image;
        const bool inside = n < target.images && channel0 + channel < target.channels &&
                            uint32_t(row) < uint32_t(from.height) &&
                            uint32_t(column) < uint32_t(from.width);
        values[image * kImagePitch + channel * kChannelPitch + pixel] =
            inside ? tf32_rounded(from.value(n, row, column, channel0 + channel)) : 0.f;
      }
    }
    __syncthreads();
    constexpr int kParts = ImageBlocks::kChannels / kChannels;
    float* const first =
        to + target.offset(group, part / kParts, 0, 0) + part % kParts * kChannels * kImages;
#pragma unroll
    for (int i = 0; i < kImages * kPixels * kChannels / 4 / kStagingThreads; ++i) {
      const int piece = threadIdx.x + i * kStagingThreads;  // of four images
      const int channel = piece % 8 + piece / 16 % (kChannels / 8) * 8, image = piece / 8 % 2 * 4;
      const int pixel = piece / (2 * kChannels);
      if (pixel0 + pixel >= pixels) break;
      const float* const at = values + image * kImagePitch + channel * kChannelPitch + pixel;
      *reinterpret_cast<float4*>(first + size_t(pixel0 + pixel) * ImageBlocks::kElements +
                                 piece % (2 * kChannels) * 4) = {
          at[0], at[kImagePitch], at[2 * kImagePitch], at[3 * kImagePitch]};
    }
  }
};

/// A pooled gradient: a thread writes a channel of four images at the positions of a window, neighbours other channels, and
/// zeros beyond the last window.
template <Layout kLayout>
struct GradientBlockPart {
  PooledGradient<float, kLayout> from;
  ImageBlocks target;
  float* to;
  int items, blocks = 0;
  FastDivisor by_cells_w, by_cells_h, by_octets;

  GradientBlockPart(const PooledGradient<float, kLayout>& from_, const ImageBlocks& target_,
                    float* to_)
      : from(from_),
        target(target_),
        to(to_),
        by_cells_w(ceil_div(target.width, 2)),
        by_cells_h(ceil_div(target.height, 2)),
        by_octets(target.channel_blocks() * (ImageBlocks::kChannels / 8)) {
    items = target.groups() * int(by_octets.divisor) * 16 * int(by_cells_w.divisor) *
            int(by_cells_h.divisor);
    if (to) blocks = ceil_div(items, kStagingThreads);
  }

  __device__ __forceinline__ void stage(int block) const {
    const int item = block * kStagingThreads + threadIdx.x;
    if (item >= items) return;
    const ConvGeometry& g = from.g;
    int rest, column, row, octet, group;
    by_cells_w.divmod(item / 8, rest, column);
    by_cells_h.divmod(rest, rest, row);
    const int half = rest % 2;
    by_octets.divmod(rest / 2, group, octet);
    const int channel = octet * 8 + item % 8;
    const int window = row * g.pool_w + column;
    const bool inside = row < g.pool_h && column < g.pool_w && channel < g.d.k;
    uint32_t places[4];
    float values[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = group * ImageBlocks::kImages + half * 4 + i;
      const bool there = inside && n < g.d.n;
      places[i] = there ? from.argmax[(size_t(n) * from.groups + octet) * g.windows + window] >>
                                  4 * (item % 8) &
                              15
                        : 4;  // no position
      values[i] = there ? tf32_rounded(from.dy[from.at(n, window, channel)]) : 0.f;
    }
#pragma unroll
    for (uint32_t position = 0; position < 4; ++position) {
      const int p = 2 * row + int(position) / 2, q = 2 * column + int(position) % 2;
      if (p >= target.height || q >= target.width) continue;
      const auto value = [&](int i) { return places[i] == position ? values[i] : 0.f; };
      *reinterpret_cast<float4*>(to + target.offset(group, octet / 8, p, q) + octet % 8 * 64 +
                                 half * 32 +
                                 item % 8 * 4) = {value(0), value(1), value(2), value(3)};
    }
  }
};

/// Weights KCRS of 3x3 filters as wgmma_blocks.cuh multiplies them, by tiles of so many filters: in steps of eight channels
/// [tile][step][tap][octet of filters][four channels][filter][channel].
struct BlockWeightPart {
  const float* from;
  int filters, channels;
  float* to;
  FastDivisor by_octets, by_steps;
  int total, blocks;

  BlockWeightPart(const float* w, const Conv2dProblem& d, int tile, float* to_)
      : from(w),
        filters(d.k),
        channels(d.c),
        to(to_),
        by_octets(tile / 8),
        by_steps(ceil_div(d.c, 8)),
        total(elements(d, tile)),
        blocks(ceil_div(total, kStagingThreads)) {}
  static int elements(const Conv2dProblem& d, int tile) {
    return round_up(d.k, tile) * kTaps * round_up(d.c, 8);
  }

  __device__ __forceinline__ void stage(int block) const {
    const int i = block * kStagingThreads + threadIdx.x;
    if (i >= total) return;
    int rest, octet, tile, step;
    by_octets.divmod(i / 64, rest, octet);
    const int tap = rest % kTaps;
    by_steps.divmod(rest / kTaps, tile, step);
    const int k = (tile * int(by_octets.divisor) + octet) * 8 + i / 4 % 8;
    const int c = step * 8 + i / 32 % 2 * 4 + i % 4;
    const bool inside = k < filters && c < channels;
    to[i] = inside ? tf32_rounded(from[(size_t(k) * channels + c) * kTaps + tap]) : 0.f;
  }

 private:
  static constexpr int kTaps = 9;
};

}  // namespace duet
