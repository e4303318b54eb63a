// What the convolutions on tensor cores read (mma_convolution.cuh): images with the channels last,
// padded by zeros to whole 16 bytes, and weights as a matrix of the same order, so that every gather
// fetches 16 bytes. Images that lie so already are taken as they are; others, and the weights, are
// rewritten into the workspace by one launch: two bytes read and two written a value, where each is
// read about r*s times after it.
#pragma once

#include "device/launch.h"
#include "kernels/split_reduction.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {

/// An image tensor of `channels` in either layout.
template <class T, Layout kLayout>
struct PlainImage {
  static constexpr bool kPixelLanes = kLayout == Layout::kNCHW;
  const T* from;
  int channels, pixels;
  __device__ __forceinline__ T value(int n, int pixel, int channel) const {
    const size_t plane = size_t(n) * (kPixelLanes ? channels : pixels);
    return kPixelLanes ? from[(plane + channel) * pixels + pixel]
                       : from[(plane + pixel) * channels + channel];
  }
};

/// The gradient behind a pooling of 2x2 windows: at an output position its window's if the argmax names
/// that position, else zero. A cell is a window, or what an odd last row or column leaves of one.
template <class T, Layout kLayout>
struct PooledGradient {
  const T* dy;
  const uint32_t* argmax;
  ConvGeometry g;  // of the problem as it is
  int padded;      // channels
  int cells_h = ceil_div(g.d.p, 2), cells_w = ceil_div(g.d.q, 2), groups = argmax_groups(g.d.k);
  int items = g.d.n * cells_h * cells_w * groups;  // of eight channels
  FastDivisor by_groups{groups}, by_cells_w{cells_w}, by_cells_h{cells_h};

  /// Eight channels of a window, zeros beyond the last.
  __device__ __forceinline__ Vector<T, 8> window(int n, int window, int k0) const {
    Vector<T, 8> values = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (k0 + e >= g.d.k) break;
      values.v[e] = kLayout == Layout::kNCHW
                        ? dy[(size_t(n) * g.d.k + k0 + e) * g.windows + window]
                        : dy[(size_t(n) * g.windows + window) * g.d.k + k0 + e];
    }
    return values;
  }
};

/// Weights float KCRS (or KRSC) as a matrix [rows][(r,s,channel)]: rows are filters and channels the
/// input's, or with `turned` the other way round.
struct WeightMatrix {
  const float* from;
  int filters, channels, taps;
  bool taps_inside, turned;  // KCRS
  int padded;                // channels of a row
  FastDivisor by_row, by_padded;
  int total;

  WeightMatrix(const float* w, const Conv2dProblem& d, bool turned_, int padded_)
      : from(w),
        filters(d.k),
        channels(d.c),
        taps(d.r * d.s),
        taps_inside(d.layout == Layout::kNCHW),
        turned(turned_),
        padded(padded_),
        by_row(taps * padded),
        by_padded(padded),
        total((turned ? channels : filters) * taps * padded) {}
  __device__ __forceinline__ float value(int i) const {
    int row, rest, tap, channel;
    by_row.divmod(i, row, rest);
    by_padded.divmod(rest, tap, channel);
    const int k = turned ? channel : row, c = turned ? row : channel;
    if (k >= filters || c >= channels) return 0.f;
    return from[taps_inside ? (size_t(k) * channels + c) * taps + tap
                            : (size_t(k) * taps + tap) * channels + c];
  }
};

inline constexpr int kStagedPixels = 64, kStagedChannels = 32, kStagingThreads = 256;

// 256 weights a block.
template <class T>
__device__ __forceinline__ void stage_weights(int block, const WeightMatrix& weights,
                                              T* __restrict__ staged) {
  const int i = block * kStagingThreads + threadIdx.x;
  if (i < weights.total) staged[i] = T(weights.value(i));
}

// Mapping: the first image_blocks blocks are tiles of 64 pixels x 32 channels, turned in shared
// memory; the others 256 weights each.
template <class T, class Image>
__global__ void __launch_bounds__(kStagingThreads)
    stage_operands_kernel(const __grid_constant__ Image image, int channels, int padded,
                          int all_pixels, FastDivisor by_pixels, int image_blocks,
                          FastDivisor by_pixel_blocks, T* __restrict__ staged,
                          const __grid_constant__ WeightMatrix weights,
                          T* __restrict__ staged_weights) {
  wait_for_primary();
  constexpr int kVec = kWidest<T>;
  __shared__ T tile[kStagedChannels][kStagedPixels + 2];
  if (int(blockIdx.x) >= image_blocks)
    return stage_weights(blockIdx.x - image_blocks, weights, staged_weights);
  int pixel_block, channel_block;
  by_pixel_blocks.divmod(blockIdx.x, channel_block, pixel_block);
  const int pixel0 = pixel_block * kStagedPixels, channel0 = channel_block * kStagedChannels;
  constexpr int kLanes = Image::kPixelLanes ? kStagedPixels : kStagedChannels;
#pragma unroll
  for (int i = 0; i < kStagedPixels * kStagedChannels / kStagingThreads; ++i) {
    const int unit = threadIdx.x + i * kStagingThreads;
    const int pixel = Image::kPixelLanes ? unit % kLanes : unit / kLanes;
    const int channel = Image::kPixelLanes ? unit / kLanes : unit % kLanes;
    T value(0.f);
    if (pixel0 + pixel < all_pixels && channel0 + channel < channels) {
      int n, in_image;
      by_pixels.divmod(pixel0 + pixel, n, in_image);
      value = image.value(n, in_image, channel0 + channel);
    }
    tile[channel][pixel] = value;
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kStagedPixels * kStagedChannels / kVec / kStagingThreads; ++i) {
    const int unit = threadIdx.x + i * kStagingThreads;
    const int channel = unit % (kStagedChannels / kVec) * kVec;
    const int pixel = unit / (kStagedChannels / kVec);
    if (pixel0 + pixel >= all_pixels || channel0 + channel >= padded) continue;
    Vector<T, kVec> run;
#pragma unroll
    for (int e = 0; e < kVec; ++e) run.v[e] = tile[channel + e][pixel];
    Packed<T, kVec>(run).store(staged + size_t(pixel0 + pixel) * padded + channel0 + channel);
  }
}

/// Either may be nothing: `staged` or `staged_weights` is nullptr. `images` of `pixels`.
template <class T, class Image>
void launch_staging(const Image& image, int channels, int padded, int images, int pixels, T* staged,
                    const WeightMatrix& weights, T* staged_weights, cudaStream_t stream) {
  const int pixel_blocks = ceil_div(images * pixels, kStagedPixels);
  const int image_blocks = staged ? pixel_blocks * ceil_div(padded, kStagedChannels) : 0;
  const int blocks = image_blocks + (staged_weights ? ceil_div(weights.total, kStagingThreads) : 0);
  if (blocks == 0) return;
  launch_following({blocks, kStagingThreads, 0, stream}, stage_operands_kernel<T, Image>, image,
                   channels, padded, images * pixels, FastDivisor(pixels), image_blocks,
                   FastDivisor(pixel_blocks), staged, weights, staged_weights);
}

// Mapping: a thread writes eight channels of the positions of a cell, neighbours other channels.
template <class T, Layout kLayout>
__global__ void __launch_bounds__(kStagingThreads)
    stage_pooled_gradient_kernel(const __grid_constant__ PooledGradient<T, kLayout> from,
                                 int image_blocks, T* __restrict__ staged,
                                 const __grid_constant__ WeightMatrix weights,
                                 T* __restrict__ staged_weights) {
  wait_for_primary();
  constexpr int kVec = kWidest<T>;
  if (int(blockIdx.x) >= image_blocks)
    return stage_weights(blockIdx.x - image_blocks, weights, staged_weights);
  const int item = blockIdx.x * kStagingThreads + threadIdx.x;
  if (item >= from.items) return;
  const ConvGeometry& g = from.g;
  int cell, group, rest, row, column, n;
  from.by_groups.divmod(item, cell, group);
  from.by_cells_w.divmod(cell, rest, column);
  from.by_cells_h.divmod(rest, n, row);
  uint32_t codes = 0x44444444u;  // no position
  Vector<T, 8> values = {};
  if (row < g.pool_h && column < g.pool_w) {
    const int window = row * g.pool_w + column;
    codes = from.argmax[(size_t(n) * from.groups + group) * g.windows + window];
    values = from.window(n, window, group * 8);
  }
#pragma unroll
  for (int position = 0; position < 4; ++position) {
    const int p = 2 * row + position / 2, q = 2 * column + position % 2;
    if (p >= g.d.p || q >= g.d.q) continue;
    T* const to = staged + (size_t(n * g.d.p + p) * g.d.q + q) * from.padded;
#pragma unroll
    for (int first = 0; first < 8; first += kVec) {
      const int channel = group * 8 + first;
      if (channel >= from.padded) break;
      Vector<T, kVec> run;
#pragma unroll
      for (int e = 0; e < kVec; ++e) {
        const bool here = (codes >> 4 * (first + e) & 15) == uint32_t(position);
        run.v[e] = here ? values.v[first + e] : T(0.f);
      }
      Packed<T, kVec>(run).store(to + channel);
    }
  }
}

/// As launch_staging().
template <class T, Layout kLayout>
void launch_staging(const PooledGradient<T, kLayout>& from, T* staged, const WeightMatrix& weights,
                    T* staged_weights, cudaStream_t stream) {
  const int image_blocks = ceil_div(from.items, kStagingThreads);
  const int weight_blocks = staged_weights ? ceil_div(weights.total, kStagingThreads) : 0;
  launch_following({image_blocks + weight_blocks, kStagingThreads, 0, stream},
                   stage_pooled_gradient_kernel<T, kLayout>, from, image_blocks, staged, weights,
                   staged_weights);
}

// dw[filter][tap][channel] as the layout has it = the sum of the parts; then db.
template <bool kTapsInside>
__global__ void __launch_bounds__(kReduceThreads)
    sum_filters_kernel(const float* partial, int splits, size_t stride, int filters, int channels,
                       int taps, int padded, FastDivisor by_row, FastDivisor by_inner,
                       float* __restrict__ dw, float* __restrict__ db) {
  constexpr int kSlices = 8, kLanes = kReduceThreads / kSlices;
  __shared__ float slices[kSlices][kLanes];
  const int lane = threadIdx.x % kLanes, slice = threadIdx.x / kLanes;
  const int i = blockIdx.x * kLanes + lane, weights = filters * channels * taps;
  size_t from = size_t(filters) * taps * padded + (i - weights);
  if (i < weights) {
    int k, rest, outer, inner;
    by_row.divmod(i, k, rest);
    by_inner.divmod(rest, outer, inner);
    const int tap = kTapsInside ? inner : outer, c = kTapsInside ? outer : inner;
    from = (size_t(k) * taps + tap) * padded + c;
  }
  const bool inside = i < weights + filters;
  float total = 0.f;
  wait_for_primary();
  if (inside)
#pragma unroll 8
    for (int s = slice; s < splits; s += kSlices) total += partial[s * stride + from];
  slices[slice][lane] = total;
  __syncthreads();
  if (slice != 0 || !inside) return;
#pragma unroll
  for (int s = 1; s < kSlices; ++s) total += slices[s][lane];
  if (i < weights) {
    dw[i] = total;
  } else if (db != nullptr) {
    db[i - weights] = total;
  }
}

}  // namespace duet
