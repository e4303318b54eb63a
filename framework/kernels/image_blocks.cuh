// Images of float eight side by side, as a product of tf32 by wgmma reads them where a sum runs over images and positions
// (wgmma_filter.cuh): the instruction wants eight terms of a sum together, and here they are one pixel of eight images.
#pragma once

#include "core/tensor.h"
#include "device/launch.h"
#include "kernels/integers.cuh"
#include "kernels/rasters.cuh"

namespace duet {

/// Blocks [n / 8][channel / 64][row][column] of 64 channels of eight images, with rows and columns of zeros around. In a block
/// lie eight channels of four images together, 128 bytes, then the next four images, then the next eight channels.
struct ImageBlocks {
  static constexpr int kImages = 8, kChannels = 64, kElements = kImages * kChannels;
  int images, channels, height, width;  // the last two with the zeros
  int pad_h = 0, pad_w = 0;             // above and left

  __host__ __device__ int groups() const { return ceil_div(images, kImages); }
  __host__ __device__ int channel_blocks() const { return ceil_div(channels, kChannels); }
  int64_t elements() const {
    return int64_t{groups()} * channel_blocks() * height * width * kElements;
  }
  size_t bytes() const { return sizeof(float) * size_t(elements()); }
  __device__ __forceinline__ size_t offset(int group, int block, int row, int column) const {
    return (((size_t(group) * channel_blocks() + block) * height + row) * width + column) *
           kElements;
  }
};

/// Some blocks to be written, rounded to tf32, by tiles of 32 pixels by 16 channels of eight images.
struct ImageBlockTarget {
  static constexpr int kPixels = 32, kChannels = 16;
  ImageBlocks blocks;
  float* to;
  int source_height, source_width;
  FastDivisor by_width, by_tiles, by_parts;

  ImageBlockTarget(const ImageBlocks& blocks_, float* to_, int source_height_, int source_width_)
      : blocks(blocks_),
        to(to_),
        source_height(source_height_),
        source_width(source_width_),
        by_width(blocks.width),
        by_tiles(ceil_div(blocks.height * blocks.width, kPixels)),
        by_parts(blocks.channel_blocks() * (ImageBlocks::kChannels / kChannels)) {}
  int tiles() const {
    return blocks.groups() * blocks.channel_blocks() * (ImageBlocks::kChannels / kChannels) *
           ceil_div(blocks.height * blocks.width, kPixels);
  }
};

inline constexpr int kBlockThreads = 256;

template <class Source>
__device__ __forceinline__ void write_block_tile(int tile, const Source& source,
                                                 const ImageBlockTarget& target) {
  constexpr int kPixels = ImageBlockTarget::kPixels, kChannels = ImageBlockTarget::kChannels;
  constexpr int kImages = ImageBlocks::kImages;
  // Pitches that keep the lanes of either side of the turn in different banks.
  constexpr int kChannelPitch = kPixels + 1, kImagePitch = kChannels * kChannelPitch + 4;
  __shared__ float values[kImages * kImagePitch];
  const ImageBlocks& b = target.blocks;
  int rest, pixel0, part, group;
  target.by_tiles.divmod(tile, rest, pixel0);
  target.by_parts.divmod(rest, group, part);
  pixel0 *= kPixels;
  const int channel0 = part * kChannels, pixels = b.height * b.width;
#pragma unroll
  for (int i = 0; i < kImages * kPixels * kChannels / kBlockThreads; ++i) {
    const int unit = threadIdx.x + i * kBlockThreads;
    constexpr int kPlane = kPixels * kChannels;
    const int image = unit / kPlane, in_plane = unit % kPlane;
    const int pixel = Source::kPixelLanes ? in_plane % kPixels : in_plane / kChannels;
    const int channel = Source::kPixelLanes ? in_plane / kPixels : in_plane % kChannels;
    int row, column;
    target.by_width.divmod(pixel0 + pixel, row, column);
    row -= b.pad_h, column -= b.pad_w;
    const int n = group * kImages + image;
    const bool inside = n < b.images && channel0 + channel < b.channels &&
                        uint32_t(row) < uint32_t(target.source_height) &&
                        uint32_t(column) < uint32_t(target.source_width);
    const float value = inside ? source.value(n, row, column, channel0 + channel) : 0.f;
    values[image * kImagePitch + channel * kChannelPitch + pixel] = tf32_rounded(value);
  }
  __syncthreads();
  constexpr int kPerBlock = ImageBlocks::kChannels / kChannels;
  float* const to =
      target.to + b.offset(group, part / kPerBlock, 0, 0) + part % kPerBlock * kChannels * kImages;
#pragma unroll
  for (int i = 0; i < kImages * kPixels * kChannels / 4 / kBlockThreads; ++i) {
    const int piece = threadIdx.x + i * kBlockThreads;  // of four images
    const int channel = piece % 8 + piece / 16 % (kChannels / 8) * 8, image = piece / 8 % 2 * 4;
    const int pixel = piece / (2 * kChannels);
    if (pixel0 + pixel >= pixels) break;
    const float* const from = values + image * kImagePitch + channel * kChannelPitch + pixel;
    *reinterpret_cast<float4*>(to + size_t(pixel0 + pixel) * ImageBlocks::kElements +
                               piece % (2 * kChannels) * 4) = {
        from[0], from[kImagePitch], from[2 * kImagePitch], from[3 * kImagePitch]};
  }
}

// Mapping: a block writes a tile through shared memory; the first a_tiles blocks A's.
// Traffic:  a value is read once and written once.
template <class A, class B>
__global__ void __launch_bounds__(kBlockThreads)
    write_image_blocks_kernel(const __grid_constant__ A a,
                              const __grid_constant__ ImageBlockTarget a_target, int a_tiles,
                              const __grid_constant__ B b,
                              const __grid_constant__ ImageBlockTarget b_target) {
  wait_for_primary();
  const int tile = blockIdx.x;
  if (tile < a_tiles)
    write_block_tile(tile, a, a_target);
  else
    write_block_tile(tile - a_tiles, b, b_target);
}

/// Writes both, from sources as write_rasters() takes them.
template <class A, class B>
void write_image_blocks(const A& a, const ImageBlockTarget& a_target, const B& b,
                        const ImageBlockTarget& b_target, cudaStream_t stream) {
  launch_following({a_target.tiles() + b_target.tiles(), kBlockThreads, 0, stream},
                   write_image_blocks_kernel<A, B>, a, a_target, a_target.tiles(), b, b_target);
}

}  // namespace duet
