// What the convolutions on tensor cores read (mma_convolution.cuh, wgmma_convolution.cuh): images with
// the channels last, padded by zeros to whole 16 bytes, and weights as a matrix of the same order, so that every gather
// fetches 16 bytes. Images that lie so already are taken as they are; others, and the weights, are
// rewritten into the workspace by one launch: two bytes read and two written a value, where each is
// read about r*s times after it.
#pragma once

#include "device/launch.h"
#include "kernels/rasters.cuh"
#include "kernels/split_reduction.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {

/// An image tensor of `channels` in either layout.
template <class T, Layout kLayout>
struct PlainImage {
  const T* from;
  int channels, pixels;
  __device__ __forceinline__ T value(int n, int pixel, int channel) const {
    constexpr bool kPlanes = kLayout == Layout::kNCHW;
    const size_t plane = size_t(n) * (kPlanes ? channels : pixels);
    return kPlanes ? from[(plane + channel) * pixels + pixel]
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

  __device__ __forceinline__ T value(int n, int p, int q, int channel) const {
    if (p / 2 >= g.pool_h || q / 2 >= g.pool_w) return T(0.f);
    const int window = p / 2 * g.pool_w + q / 2;
    const uint32_t codes = argmax[(size_t(n) * groups + channel / 8) * g.windows + window];
    if ((codes >> 4 * (channel % 8) & 15) != uint32_t(p % 2 * 2 + q % 2)) return T(0.f);
    return dy[at(n, window, channel)];
  }
  __device__ __forceinline__ size_t at(int n, int window, int channel) const {
    return kLayout == Layout::kNCHW ? (size_t(n) * g.d.k + channel) * g.windows + window
                                    : (size_t(n) * g.windows + window) * g.d.k + channel;
  }
  /// Eight channels of a window, zeros beyond the last.
  __device__ __forceinline__ Vector<T, 8> window(int n, int window, int k0) const {
    Vector<T, 8> values = {};
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (k0 + e >= g.d.k) break;
      values.v[e] = dy[at(n, window, k0 + e)];
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

/// As it is staged: float is rounded to tf32, if `rounds` says so.
template <class T, class From>
__device__ __forceinline__ T staged_value(From value, bool rounds) {
  if constexpr (std::is_same_v<T, float>) {
    return rounds ? tf32_rounded(value) : value;
  } else {
    return T(value);
  }
}

inline constexpr int kStagingThreads = 256;

// What a launch stages is one or two parts, each a number of blocks and stage(block), by all threads of
// the block. A part whose `to` is nullptr has no blocks.

/// Weights, 256 a block.
template <class T>
struct WeightPart {
  WeightMatrix weights;
  T* to;
  bool rounds;
  int blocks;

  WeightPart(const WeightMatrix& weights_, T* to_, bool rounds_)
      : weights(weights_),
        to(to_),
        rounds(rounds_),
        blocks(to ? ceil_div(weights.total, kStagingThreads) : 0) {}
  __device__ __forceinline__ void stage(int block) const {
    const int i = block * kStagingThreads + threadIdx.x;
    if (i < weights.total) to[i] = staged_value<T>(weights.value(i), rounds);
  }
};

/// An image tensor. A block stages 64 pixels x 32 channels, turned in shared memory.
template <class T, Layout kLayout>
struct ImagePart {
  static constexpr int kPixels = 64, kChannels = 32;
  PlainImage<T, kLayout> image;
  int padded, all_pixels;
  T* to;
  bool rounds;
  int blocks;
  FastDivisor by_pixels, by_pixel_blocks;

  /// `padded` channels a pixel.
  ImagePart(const PlainImage<T, kLayout>& image_, int images, int padded_, T* to_, bool rounds_)
      : image(image_),
        padded(padded_),
        all_pixels(images * image.pixels),
        to(to_),
        rounds(rounds_),
        blocks(to ? ceil_div(all_pixels, kPixels) * ceil_div(padded, kChannels) : 0),
        by_pixels(image.pixels),
        by_pixel_blocks(ceil_div(all_pixels, kPixels)) {}

  __device__ __forceinline__ void stage(int block) const {
    constexpr int kVec = kWidest<T>;
    constexpr bool kPixelLanes = kLayout == Layout::kNCHW;
    constexpr int kLanes = kPixelLanes ? kPixels : kChannels;
    __shared__ T tile[kChannels][kPixels + 2];
    int pixel0, channel0;
    by_pixel_blocks.divmod(block, channel0, pixel0);
    pixel0 *= kPixels, channel0 *= kChannels;
#pragma unroll
    for (int i = 0; i < kPixels * kChannels / kStagingThreads; ++i) {
      const int unit = threadIdx.x + i * kStagingThreads;
      const int pixel = kPixelLanes ? unit % kLanes : unit / kLanes;
      const int channel = kPixelLanes ? unit / kLanes : unit % kLanes;
      T value(0.f);
      if (pixel0 + pixel < all_pixels && channel0 + channel < image.channels) {
        int n, in_image;
        by_pixels.divmod(pixel0 + pixel, n, in_image);
        value = staged_value<T>(image.value(n, in_image, channel0 + channel), rounds);
      }
      tile[channel][pixel] = value;
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kPixels * kChannels / kVec / kStagingThreads; ++i) {
      const int unit = threadIdx.x + i * kStagingThreads;
      const int channel = unit % (kChannels / kVec) * kVec, pixel = unit / (kChannels / kVec);
      if (pixel0 + pixel >= all_pixels || channel0 + channel >= padded) continue;
      Vector<T, kVec> run;
#pragma unroll
      for (int e = 0; e < kVec; ++e) run.v[e] = tile[channel + e][pixel];
      Packed<T, kVec>(run).store(to + size_t(pixel0 + pixel) * padded + channel0 + channel);
    }
  }
};

/// A pooled gradient: a thread writes eight channels of the positions of a cell, neighbours other
/// channels.
template <class T, Layout kLayout>
struct GradientPart {
  PooledGradient<T, kLayout> from;
  T* to;
  bool rounds;
  int blocks;

  GradientPart(const PooledGradient<T, kLayout>& from_, T* to_, bool rounds_)
      : from(from_), to(to_), rounds(rounds_), blocks(ceil_div(from.items, kStagingThreads)) {}

  __device__ __forceinline__ void stage(int block) const {
    constexpr int kVec = kWidest<T>;
    const int item = block * kStagingThreads + threadIdx.x;
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
      T* const at = to + (size_t(n * g.d.p + p) * g.d.q + q) * from.padded;
#pragma unroll
      for (int first = 0; first < 8; first += kVec) {
        const int channel = group * 8 + first;
        if (channel >= from.padded) break;
        Vector<T, kVec> run;
#pragma unroll
        for (int e = 0; e < kVec; ++e) {
          const bool here = (codes >> 4 * (first + e) & 15) == uint32_t(position);
          run.v[e] = here ? staged_value<T>(values.v[first + e], rounds) : T(0.f);
        }
        Packed<T, kVec>(run).store(at + channel);
      }
    }
  }
};

// Mapping: the first blocks stage A, the others B.
template <class A, class B>
__global__ void __launch_bounds__(kStagingThreads)
    stage_kernel(const __grid_constant__ A a, const __grid_constant__ B b) {
  wait_for_primary();
  const int block = blockIdx.x;
  if (block < a.blocks)
    a.stage(block);
  else
    b.stage(block - a.blocks);
}

template <class A, class B>
void launch_staging(const A& a, const B& b, cudaStream_t stream) {
  if (a.blocks + b.blocks == 0) return;
  launch_following({a.blocks + b.blocks, kStagingThreads, 0, stream}, stage_kernel<A, B>, a, b);
}

// dw[filter][tap][channel] as the layout has it = the sum of the parts, in which channels are `padded`; then db.
// Mapping: lanes run along a part; where a result goes it is alone.
template <bool kTapsInside>
__global__ void __launch_bounds__(kReduceThreads)
    sum_filters_kernel(const float* partial, int splits, size_t stride, int filters, int channels,
                       int taps, FastDivisor by_padded, FastDivisor by_taps, float* __restrict__ dw,
                       float* __restrict__ db) {
  constexpr int kSlices = 8, kLanes = kReduceThreads / kSlices;
  __shared__ float slices[kSlices][kLanes];
  const int lane = threadIdx.x % kLanes, slice = threadIdx.x / kLanes;
  const int i = blockIdx.x * kLanes + lane;
  const int weights = filters * taps * int(by_padded.divisor);
  const bool inside = i < weights + filters;
  float total = 0.f;
  wait_for_primary();
  if (inside)
#pragma unroll 8
    for (int s = slice; s < splits; s += kSlices) total += partial[s * stride + i];
  slices[slice][lane] = total;
  __syncthreads();
  if (slice != 0 || !inside) return;
#pragma unroll
  for (int s = 1; s < kSlices; ++s) total += slices[s][lane];
  if (i < weights) {
    int rest, channel, filter, tap;
    by_padded.divmod(i, rest, channel);
    by_taps.divmod(rest, filter, tap);
    if (channel >= channels) return;
    dw[kTapsInside ? (filter * channels + channel) * taps + tap : rest * channels + channel] =
        total;
  } else if (db != nullptr) {
    db[i - weights] = total;
  }
}

}  // namespace duet
