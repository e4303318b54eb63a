// Rows of images for a product of tf32 whose sum runs over images and positions (wgmma_filter.cuh), written to shared memory by a
// warpgroup from a tensor as it lies, rounded: nothing is staged in memory.
//
// A row is blocks, one a column, of 64 channels of eight images: eight channels of four images lie together, 128 bytes, then the
// next four images, then the next eight channels. A thread writes 16 bytes, a channel of four images, and eight neighbours
// as many channels, so that they meet different banks; a warp does so for four columns, whose values lie together
// in a plane.
#pragma once

#include <cuda_runtime.h>

#include "kernels/integers.cuh"
#include "kernels/rasters.cuh"
#include "kernels/wgmma_split.cuh"

namespace duet {

/// What a thread of the warpgroup writes of a block: in each of kOctets octets of channels the same channel, of four images. In two
/// parts (wgmma_split.cuh) a row of heads lies before one of rests.
template <int channels, int kParts>
struct BlockWriter {
  static constexpr int kThreads = 128, kChannels = channels, kImages = 8, kOctets = channels / 16,
                       kOwnImages = 4;
  static constexpr int kBlockBytes = kChannels * kImages * int(sizeof(float));
  const int warp = threadIdx.x % kThreads / 32, lane = threadIdx.x % 32;
  const int first_image = warp % 2 * kOwnImages;
  const int unit = lane / 8;  // which of four things the eight lanes do together

  /// Of octet number `i` of this thread.
  __device__ __forceinline__ int channel(int i) const { return (warp / 2 + 2 * i) * 8 + lane % 8; }
  /// value(e) of its images, in a row of so many columns.
  template <class Value>
  __device__ __forceinline__ void write(char* row, int columns, int column, int i,
                                        Value value) const {
    auto* const to = reinterpret_cast<float4*>(
        row + column * kBlockBytes + (warp / 2 + 2 * i) * 256 + first_image * 32 + lane % 8 * 16);
    if constexpr (kParts == 1) {
      *to = {tf32_rounded(value(0)), tf32_rounded(value(1)), tf32_rounded(value(2)),
             tf32_rounded(value(3))};
    } else {
      const float4 head = {rounded_head(value(0)), rounded_head(value(1)), rounded_head(value(2)),
                           rounded_head(value(3))};
      *to = head;
      to[columns * (kBlockBytes / 16)] = {value(0) - head.x, value(1) - head.y, value(2) - head.z,
                                          value(3) - head.w};
    }
  }
};

/// Rows of a tensor [n][channel][height][width] in any order, with zeros around. A thread has kFours times four columns in
/// its registers at once.
template <int kFours, int kChannels = 64, int kParts = 1>
struct TensorRows {
  using Element = float;
  using Writer = BlockWriter<kChannels, kParts>;
  static constexpr bool kWritten = true;
  static constexpr int kTogether = 1;  // at most, of rows()
  const float* from;
  int images, channels, height, width;
  int of_image, of_channel, of_row, of_column;  // elements from one to the next
  int pad_h, pad_w, columns;                    // of a row

  /// Rows to be written at once, of `left` from `row` on.
  __device__ __forceinline__ int rows(int /*row*/, int /*left*/) const { return 1; }
  __device__ __forceinline__ int turns() const { return ceil_div(columns, 4 * kFours); }

  struct Values {
    float of[kFours][Writer::kOctets][Writer::kOwnImages];
  };
  /// Of eight images and 64 channels, these counted in such blocks; rows and columns from the first of the zeros on.
  __device__ __forceinline__ void load(Values& values, int group, int block, int row, int column,
                                       int turn) const {
    const Writer writer;
    const int image = group * Writer::kImages + writer.first_image;
    row -= pad_h;
    const float* const of_row_ = from + int64_t(image) * of_image + row * of_row;
#pragma unroll
    for (int four = 0; four < kFours; ++four) {
      const int at = (turn * kFours + four) * 4 + writer.unit, w = column + at - pad_w;
      const bool inside =
          uint32_t(row) < uint32_t(height) && uint32_t(w) < uint32_t(width) && at < columns;
#pragma unroll
      for (int i = 0; i < Writer::kOctets; ++i) {
        const int channel = block * Writer::kChannels + writer.channel(i);
        const float* const first = of_row_ + channel * of_channel + w * of_column;
#pragma unroll
        for (int e = 0; e < Writer::kOwnImages; ++e)
          values.of[four][i][e] =
              inside && channel < channels && image + e < images ? first[e * of_image] : 0.f;
      }
    }
  }
  __device__ __forceinline__ void store(const Values& values, int /*row*/, int /*column*/, int turn,
                                        char* const (&to)[kTogether], int /*count*/) const {
    const Writer writer;
#pragma unroll
    for (int four = 0; four < kFours; ++four) {
      const int at = (turn * kFours + four) * 4 + writer.unit;
      if (at >= columns) break;
#pragma unroll
      for (int i = 0; i < Writer::kOctets; ++i) {
        writer.write(to[0], columns, at, i, [&](int e) { return values.of[four][i][e]; });
      }
    }
  }
};

}  // namespace duet
