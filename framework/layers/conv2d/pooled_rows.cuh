// The gradient behind a pooling of 2x2 windows as rows for kernels/wgmma_filter.cuh (kernels/written_rows.cuh): two rows at once,
// from one value and one place of each window.
#pragma once

#include "kernels/written_rows.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {

template <int kParts = 1>
struct PooledRows {
  using Element = float;
  using Writer = BlockWriter<64, kParts>;
  static constexpr bool kWritten = true;
  static constexpr int kTogether = 2;
  const float* dy;
  const uint32_t* argmax;
  int images, filters, pool_h, pool_w;
  int of_image, of_filter, of_window;  // elements of dy from one to the next
  int columns;                         // of a row
  int groups = argmax_groups(filters);
  FastDivisor by_windows{(columns + 1) / 2};  // that a row may meet

  __device__ __forceinline__ int rows(int row, int left) const { return min(2 - row % 2, left); }
  __device__ __forceinline__ int turns() const {
    return ceil_div(int(by_windows.divisor), kTogetherOf);
  }

  // Of a turn: so many times four windows of an octet.
  static constexpr int kTogetherOf = 5;
  struct Values {
    float of[kTogetherOf][Writer::kOwnImages];
    uint32_t places[kTogetherOf][Writer::kOwnImages];
  };
  __device__ __forceinline__ void load(Values& values, int group, int block, int row, int column,
                                       int turn) const {
    const Writer writer;
    const int image = group * Writer::kImages + writer.first_image;
    const int windows = pool_h * pool_w;
    const float* const of_image_ = dy + int64_t(image) * of_image;
    const uint32_t* const places = argmax + int64_t(image) * groups * windows;
#pragma unroll
    for (int j = 0; j < kTogetherOf; ++j) {
      int octet, w;
      by_windows.divmod((turn * kTogetherOf + j) * 4 + writer.unit, octet, w);
      w += column / 2;
      const int filter = block * Writer::kChannels + writer.channel(octet);
      const int window = row / 2 * pool_w + w;
      const bool inside =
          octet < Writer::kOctets && filter < filters && row / 2 < pool_h && w < pool_w;
#pragma unroll
      for (int e = 0; e < Writer::kOwnImages; ++e) {
        const bool there = inside && image + e < images;
        values.of[j][e] =
            there ? of_image_[e * of_image + filter * of_filter + window * of_window] : 0.f;
        values.places[j][e] =
            there ? places[(e * groups + filter / 8) * windows + window] >> 4 * (filter % 8)
                  : kPoolDead;
      }
    }
  }
  __device__ __forceinline__ void store(const Values& values, int row, int column, int turn,
                                        char* const (&to)[kTogether], int count) const {
    const Writer writer;
#pragma unroll
    for (int j = 0; j < kTogetherOf; ++j) {
      int octet, w;
      by_windows.divmod((turn * kTogetherOf + j) * 4 + writer.unit, octet, w);
      if (octet >= Writer::kOctets) break;
#pragma unroll
      for (int position = 0; position < 4; ++position) {
        const int number = position / 2 - row % 2, at = 2 * w + position % 2 - column % 2;
        if (uint32_t(number) >= uint32_t(count) || uint32_t(at) >= uint32_t(columns)) continue;
        writer.write(number == 0 ? to[0] : to[1], columns, at, octet, [&](int e) {
          return (values.places[j][e] & 15) == uint32_t(position) ? values.of[j][e] : 0.f;
        });
      }
    }
  }
};

}  // namespace duet
