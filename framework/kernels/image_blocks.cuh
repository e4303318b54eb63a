// Images of float eight side by side, as a product of tf32 by wgmma reads them where a sum runs over images and positions
// (wgmma_filter.cuh): the instruction wants eight terms of a sum together, and here they are one pixel of eight images.
#pragma once

#include <cuda_runtime.h>

#include "kernels/integers.cuh"

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

/// Pixels in shared memory: eight channels of four images together, 128 bytes, then the next four images, then the next eight
/// channels; neighbouring pixels begin in different banks.
struct SideBySide {
  static constexpr int kImages = 8, kChannels = 64, kPitch = kImages * kChannels + 4;  // floats
  /// Codes of a window: [octet of filters][image].
  static constexpr int kCodePitch = kImages * kChannels / 8 + 4;
  static constexpr int kWarps = 4;  // that copy, each 16 channels
};

}  // namespace duet
