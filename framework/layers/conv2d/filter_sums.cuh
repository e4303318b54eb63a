// The sum of dw's parts, in which taps lie before channels, as a layout has dw; and of db's behind them.
#pragma once

#include <algorithm>

#include "device/launch.h"
#include "kernels/split_reduction.cuh"

namespace duet {

/// Parts [filter][tap][channel] of `padded` channels, a multiple of 4, `stride` apart, the sums of dy behind each. A tile is
/// `units` times tile_taps x tile_channels of a filter; of a result `slices` threads add up parts.
struct FilterParts {
  static constexpr int kThreads = kReduceThreads, kMostTaps = 64;
  const float* from;
  int splits;
  size_t stride;
  int filters, channels, taps, padded;
  int tile_taps, tile_channels = 32, slices = 1, units, all_units;
  FastDivisor by_quads, by_tile_taps, by_tile_channels, by_tap_tiles, by_channel_tiles;

  FilterParts(const float* from_, int splits_, int filters_, int channels_, int taps_, int padded_)
      : from(from_),
        splits(splits_),
        stride(partial_stride(filters_, taps_ * padded_)),
        filters(filters_),
        channels(channels_),
        taps(taps_),
        padded(padded_),
        tile_taps(std::min(taps, kMostTaps)) {
    // With few results one thread a sum would be all latency.
    constexpr double kEnough = 2e5;  // threads
    const double results = double(filters) * taps * padded / 4;
    while (slices < 8 && 2 * slices <= splits && results * slices < kEnough) slices *= 2;
    // Runs of 32 bytes and more, of as few channels as let a block add up all that it has at once.
    while (padded % tile_channels != 0 || quads() > kThreads ||
           (tile_channels > 8 && quads() > lanes() / 2)) {
      tile_channels /= 2;
    }
    units = std::max(1, lanes() / quads());
    by_quads = FastDivisor(tile_channels / 4);
    by_tile_taps = FastDivisor(tile_taps);
    by_tile_channels = FastDivisor(tile_channels);
    by_tap_tiles = FastDivisor(ceil_div(taps, tile_taps));
    by_channel_tiles = FastDivisor(ceil_div(channels, tile_channels));
    all_units = filters * int(by_tap_tiles.divisor * by_channel_tiles.divisor);
  }
  /// Of four channels, in a unit.
  int quads() const { return tile_taps * tile_channels / 4; }
  /// Results that a block adds up at once.
  __host__ __device__ int lanes() const { return kThreads / slices; }
  int weight_blocks() const { return ceil_div(all_units, units); }
  int bias_blocks() const { return ceil_div(filters, lanes()); }
  /// Between the taps of a tile in shared memory, so that neighbours along either axis are in different banks.
  __host__ __device__ int pitch() const { return tile_channels + 4; }
  __host__ __device__ int slice_floats() const { return units * tile_taps * pitch(); }
  size_t bytes() const { return sizeof(float) * std::max(slices * slice_floats(), int(kThreads)); }

  struct Place {
    int filter, tap, channel;
  };
  /// The first of a unit.
  __device__ __forceinline__ Place place(int unit) const {
    Place at;
    by_tap_tiles.divmod(unit, unit, at.tap);
    by_channel_tiles.divmod(unit, at.filter, at.channel);
    return {at.filter, at.tap * tile_taps, at.channel * tile_channels};
  }
};

// Mapping: the first blocks have a tile of dw each, whose sums they leave in shared memory to be written in the order of dw; the
// others have db.
template <bool kTapsInside>
__global__ void __launch_bounds__(FilterParts::kThreads)
    sum_filters_kernel(const __grid_constant__ FilterParts parts, int weight_blocks,
                       float* __restrict__ dw, float* __restrict__ db) {
  extern __shared__ __align__(16) float sums_of_parts[];
  const int lanes = parts.lanes(), slices = parts.slices, splits = parts.splits;
  const int lane = threadIdx.x % lanes, slice = threadIdx.x / lanes, block = blockIdx.x;
  wait_for_primary();
  if (block >= weight_blocks) {
    const int filter = (block - weight_blocks) * lanes + lane;
    const float* const from =
        parts.from + size_t(parts.filters) * parts.taps * parts.padded + filter;
    float total = 0.f;
    if (filter < parts.filters)
#pragma unroll 8
      for (int s = slice; s < splits; s += slices) total += from[s * parts.stride];
    sums_of_parts[slice * lanes + lane] = total;
    __syncthreads();
    if (slice != 0 || filter >= parts.filters) return;
    for (int s = 1; s < slices; ++s) total += sums_of_parts[s * lanes + lane];
    db[filter] = total;
    return;
  }
  const int first_unit = block * parts.units,
            units = min(parts.units, parts.all_units - first_unit);
  const int taps = parts.tile_taps, channels = parts.tile_channels, pitch = parts.pitch();
  for (int item = lane; item < units * taps * channels / 4; item += lanes) {
    int rest, quad, tap, unit;
    parts.by_quads.divmod(item, rest, quad);
    parts.by_tile_taps.divmod(rest, unit, tap);
    const FilterParts::Place at = parts.place(first_unit + unit);
    if (at.tap + tap >= parts.taps) continue;
    const float* const from = parts.from +
                              (size_t(at.filter) * parts.taps + at.tap + tap) * parts.padded +
                              at.channel + 4 * quad;
    float4 total = {};
    constexpr int kAtOnce = 8;  // reads under way
    for (int first = slice; first < splits; first += kAtOnce * slices) {
      float4 part[kAtOnce] = {};
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const int s = first + i * slices;
        if (s < splits) part[i] = *reinterpret_cast<const float4*>(from + s * parts.stride);
      }
#pragma unroll
      for (const float4& p : part) total.x += p.x, total.y += p.y, total.z += p.z, total.w += p.w;
    }
    *reinterpret_cast<float4*>(sums_of_parts + slice * parts.slice_floats() +
                               (unit * taps + tap) * pitch + 4 * quad) = total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < units * taps * channels; i += FilterParts::kThreads) {
    int rest, unit, tap, channel;
    if constexpr (kTapsInside) {
      parts.by_tile_taps.divmod(i, rest, tap);
      parts.by_tile_channels.divmod(rest, unit, channel);
    } else {
      parts.by_tile_channels.divmod(i, rest, channel);
      parts.by_tile_taps.divmod(rest, unit, tap);
    }
    const FilterParts::Place at = parts.place(first_unit + unit);
    const int t = at.tap + tap, c = at.channel + channel;
    if (t >= parts.taps || c >= parts.channels) continue;
    const float* const sums = sums_of_parts + (unit * taps + tap) * pitch + channel;
    float total = sums[0];
    for (int s = 1; s < slices; ++s) total += sums[s * parts.slice_floats()];
    dw[kTapsInside ? (size_t(at.filter) * parts.channels + c) * parts.taps + t
                   : (size_t(at.filter) * parts.taps + t) * parts.channels + c] = total;
  }
}

/// dw, and db or nullptr. The kernel before it on the stream wrote the parts.
template <bool kTapsInside>
void launch_sum_filters(const FilterParts& parts, float* dw, float* db, cudaStream_t stream) {
  const int weight_blocks = parts.weight_blocks();
  launch_following({weight_blocks + (db ? parts.bias_blocks() : 0), FilterParts::kThreads,
                    parts.bytes(), stream},
                   sum_filters_kernel<kTapsInside>, parts, weight_blocks, dw, db);
}

}  // namespace duet
