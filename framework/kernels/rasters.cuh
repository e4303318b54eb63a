// Images as products of tf32 by wgmma read them where a sum runs over positions: such operands lie in
// shared memory with their terms side by side, and so here positions are side by side too.
#pragma once

#include "core/tensor.h"
#include "device/launch.h"
#include "kernels/integers.cuh"
#include "kernels/vector.cuh"

namespace duet {

/// To the nearest tf32. The matrix instruction reads its bits and drops the others.
__device__ __forceinline__ float tf32_rounded(float value) {
  uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
  return __uint_as_float(word);
}

/// Images [copy][n][channel][height][width] of float, whose last columns are zeros: a tap of a
/// convolution is the same raster further on. The copy engine begins at multiples of four places, and so
/// there is a copy for each bit s of `shifts`, whose place i holds what is at i + s of the image.
struct Rasters {
  int images, channels, height, width;
  unsigned shifts = 1;
  __host__ __device__ int size() const { return height * width; }
  /// Places before the first, which hold what the shift brings there.
  __host__ __device__ int lead() const { return shifts == 1 ? 0 : 4; }
  /// From one channel to the next.
  __host__ __device__ int pitch() const { return round_up(size(), 4) + lead(); }
  int copies() const { return __builtin_popcount(shifts); }
  int64_t elements() const { return int64_t{copies()} * images * channels * pitch(); }
  size_t bytes() const { return sizeof(float) * size_t(elements()); }
};

/// What rasters are made of: an image tensor, `width` wide.
template <Layout kLayout>
struct RasterSource {
  static constexpr bool kPixelLanes = kLayout == Layout::kNCHW;
  const float* from;
  int channels, height, width;
  __device__ __forceinline__ float value(int n, int row, int column, int channel) const {
    return kPixelLanes ? from[((size_t(n) * channels + channel) * height + row) * width + column]
                       : from[((size_t(n) * height + row) * width + column) * channels + channel];
  }
};

/// Some rasters to be written, rounded to tf32 or as they are, and their tiles of 64 places by 32 channels.
struct RasterTarget {
  static constexpr int kPlaces = 64, kChannels = 32;
  Rasters rasters;
  float* to;
  bool rounds;
  FastDivisor by_width, by_tiles, by_groups;

  RasterTarget(const Rasters& rasters_, float* to_, bool rounds_)
      : rasters(rasters_),
        to(to_),
        rounds(rounds_),
        by_width(rasters.width),
        by_tiles(ceil_div(rasters.pitch(), kPlaces)),
        by_groups(ceil_div(rasters.channels, kChannels)) {}
  int tiles() const {
    return rasters.images * ceil_div(rasters.pitch(), kPlaces) *
           ceil_div(rasters.channels, kChannels);
  }
};

inline constexpr int kRasterThreads = 256;

template <class Source>
__device__ __forceinline__ void write_raster_tile(int tile, const Source& source,
                                                  const RasterTarget& target) {
  constexpr int kPlaces = RasterTarget::kPlaces, kChannels = RasterTarget::kChannels;
  constexpr int kRead = kPlaces + 4, kLanes = Source::kPixelLanes ? kRead : kChannels;
  __shared__ float values[kChannels][kRead + 1];
  const Rasters& r = target.rasters;
  int rest, n, place0, channel0;
  target.by_tiles.divmod(tile, rest, place0);
  target.by_groups.divmod(rest, n, channel0);
  place0 *= kPlaces, channel0 *= kChannels;
#pragma unroll
  for (int i = 0; i < ceil_div(kRead * kChannels, kRasterThreads); ++i) {
    const int unit = threadIdx.x + i * kRasterThreads;
    if (unit >= kRead * kChannels) break;
    const int place = Source::kPixelLanes ? unit % kLanes : unit / kLanes;
    const int channel = Source::kPixelLanes ? unit / kLanes : unit % kLanes;
    const int from = place0 + place - r.lead();
    int row, column;
    target.by_width.divmod(max(from, 0), row, column);
    const bool inside =
        channel0 + channel < r.channels && from >= 0 && row < r.height && column < source.width;
    const float value = inside ? source.value(n, row, column, channel0 + channel) : 0.f;
    values[channel][place] = target.rounds ? tf32_rounded(value) : value;
  }
  __syncthreads();
  const int pitch = r.pitch();
#pragma unroll
  for (int i = 0; i < kPlaces * kChannels / 4 / kRasterThreads; ++i) {
    const int unit = threadIdx.x + i * kRasterThreads;
    const int place = unit % (kPlaces / 4) * 4, channel = unit / (kPlaces / 4);
    if (place0 + place >= pitch || channel0 + channel >= r.channels) continue;
    float* to = target.to + (size_t(n) * r.channels + channel0 + channel) * pitch + place0 + place;
#pragma unroll
    for (int shift = 0; shift < 4; ++shift) {
      if ((r.shifts >> shift & 1) == 0) continue;
      const float* const from = values[channel] + place + shift;
      *reinterpret_cast<float4*>(to) = float4{from[0], from[1], from[2], from[3]};
      to += size_t(r.images) * r.channels * pitch;
    }
  }
}

// Mapping: a block writes a tile through shared memory, so that it reads and writes neighbours in either
// layout; the first a_tiles blocks A's.
// Traffic:  a value is read once and written once a copy.
template <class A, class B>
__global__ void __launch_bounds__(kRasterThreads)
    write_rasters_kernel(const __grid_constant__ A a, const __grid_constant__ RasterTarget a_target,
                         int a_tiles, const __grid_constant__ B b,
                         const __grid_constant__ RasterTarget b_target) {
  wait_for_primary();
  const int tile = blockIdx.x;
  if (tile < a_tiles)
    write_raster_tile(tile, a, a_target);
  else
    write_raster_tile(tile - a_tiles, b, b_target);
}

/// Writes both, where a source has kPixelLanes (whether neighbouring lanes read neighbouring columns),
/// width and value(n, row, column, channel).
template <class A, class B>
void write_rasters(const A& a, const RasterTarget& a_target, const B& b,
                   const RasterTarget& b_target, cudaStream_t stream) {
  launch_following({a_target.tiles() + b_target.tiles(), kRasterThreads, 0, stream},
                   write_rasters_kernel<A, B>, a, a_target, a_target.tiles(), b, b_target);
}
/// Writes one.
template <class A>
void write_rasters(const A& a, const RasterTarget& target, cudaStream_t stream) {
  launch_following({target.tiles(), kRasterThreads, 0, stream}, write_rasters_kernel<A, A>, a,
                   target, target.tiles(), a, target);
}

}  // namespace duet
