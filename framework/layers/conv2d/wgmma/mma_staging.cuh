// What the convolutions on tensor cores read (mma_convolution.cuh, wgmma_convolution.cuh): images with
// the channels last, padded by zeros to whole 16 bytes, and weights as a matrix of the same order, so that every gather
// fetches 16 bytes. Images that lie so already are taken as they are; others, and the weights, are
// rewritten into the workspace by one launch: two bytes read and two written a value, where each is
// read about r*s times after it.
#pragma once

#include "device/launch.h"
#include "kernels/plane_tiles.cuh"
#include "kernels/tf32.cuh"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {

/// An image tensor in either layout.
template <class T>
struct PlainImage {
  const T* from;
  int channels, pixels;
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
  int pieces = padded / kWidest<T>, items = g.d.n * cells_h * cells_w * pieces;  // of 16 bytes
  FastDivisor by_pieces{pieces}, by_cells_w{cells_w}, by_cells_h{cells_h};

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
  /// 16 bytes of channels of a window, zeros beyond the last.
  __device__ __forceinline__ Vector<T, kWidest<T>> window(int n, int window, int k0) const {
    constexpr int kVec = kWidest<T>;
    if (kLayout == Layout::kNHWC && g.d.k % kVec == 0)
      return Packed<T, kVec>::load(dy + at(n, window, k0)).values();
    Vector<T, kVec> values = {};
#pragma unroll
    for (int e = 0; e < kVec; ++e) {
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

template <class T, int V>
__device__ __forceinline__ Vector<T, V> staged_piece(Vector<T, V> values, bool rounds) {
#pragma unroll
  for (int e = 0; e < V; ++e) values.v[e] = staged_value<T>(values.v[e], rounds);
  return values;
}

inline constexpr int kStagingThreads = kPlaneThreads;

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

/// An image tensor. A block stages a PlaneTile, or one of TurnedPlanes, or of NHWC, which is staged to be padded, 16 bytes a
/// thread.
template <class T, Layout kLayout>
struct ImagePart {
  static constexpr bool kPlanes = kLayout == Layout::kNCHW;
  static constexpr bool kTurns = kPlanes && std::is_same_v<T, bfloat16>;
  PlainImage<T> image;
  int padded, pieces;  // of 16 bytes
  T* to;
  bool rounds;
  int blocks = 0;
  PlaneTiles<T> tiles;
  TurnedPlanes turned;
  FastDivisor by_pieces;

  /// `padded` channels a pixel.
  ImagePart(const PlainImage<T>& image_, int images, int padded_, T* to_, bool rounds_)
      : image(image_),
        padded(padded_),
        pieces(images * image.pixels * (padded / kWidest<T>)),
        to(to_),
        rounds(rounds_),
        by_pieces(padded / kWidest<T>) {
    if (!to) return;
    if constexpr (kPlanes) tiles = PlaneTiles<T>(images, image.channels, padded, image.pixels);
    blocks = kPlanes ? tiles.blocks : ceil_div(pieces, kStagingThreads);
    if (kTurns && TurnedPlanes::possible(image.channels, image.pixels)) {
      turned = TurnedPlanes(images, image.channels, image.pixels);
      blocks = turned.blocks;
    }
  }

  __device__ __forceinline__ void stage(int block) const {
    if constexpr (kPlanes) {
      constexpr int kVec = kWidest<T>;
      using Tiles = PlaneTiles<T>;
      PlaneTile<T>& tile = PlaneTile<T>::of_block();
      if constexpr (kTurns) {
        static_assert(sizeof tile >= 2 * TurnedPlanes::kChannels * TurnedPlanes::kPixels);
        if (turned.blocks > 0) return turned.turn(image.from, to, &tile, block);
      }
      int n, channel0, pixel0;
      tiles.start(block, n, channel0, pixel0);
      const int count = min(tiles.run, image.pixels - pixel0);
      tiles.load(tile, image.from + (size_t(n) * image.channels + channel0) * image.pixels + pixel0,
                 channel0, pixel0);
      __syncthreads();
      channel0 += Tiles::own_piece() * kVec;
      if (channel0 >= padded) return;
      T* const first = to + (size_t(n) * image.pixels + pixel0) * padded + channel0;
#pragma unroll 4
      for (int pixel = Tiles::first_pixel(); pixel < count; pixel += Tiles::kStep)
        Packed<T, kVec>(staged_piece(tiles.piece(tile, pixel), rounds))
            .store(first + pixel * padded);
    } else {
      constexpr int kVec = kWidest<T>;
      const int i = block * kStagingThreads + threadIdx.x;
      if (i >= pieces) return;
      int pixel, channel;
      by_pieces.divmod(i, pixel, channel);
      channel *= kVec;
      const T* const from = image.from + size_t(pixel) * image.channels;
      Vector<T, kVec> run;
#pragma unroll
      for (int e = 0; e < kVec; ++e)
        run.v[e] =
            channel + e < image.channels ? staged_value<T>(from[channel + e], rounds) : T(0.f);
      Packed<T, kVec>(run).store(to + size_t(i) * kVec);
    }
  }
};

/// A pooled gradient: a thread writes 16 bytes of the positions of a cell; neighbours other channels, so that no sector is
/// written in parts.
template <class T, Layout kLayout>
struct GradientPart {
  static constexpr bool kPlanes = kLayout == Layout::kNCHW;
  PooledGradient<T, kLayout> from;
  T* to;
  bool rounds;
  int blocks = 0;
  PlaneTiles<T> tiles;  // of cells

  GradientPart(const PooledGradient<T, kLayout>& from_, T* to_, bool rounds_)
      : from(from_), to(to_), rounds(rounds_) {
    if (!to) return;
    blocks = ceil_div(from.items, kStagingThreads);
    if constexpr (kPlanes) {
      tiles = PlaneTiles<T>(from.g.d.n, from.g.d.k, from.padded, from.cells_h * from.cells_w);
      blocks = tiles.blocks;
    }
  }

  __device__ __forceinline__ void stage(int block) const {
    if constexpr (kPlanes) {
      stage_planes(block);
    } else {
      stage_cell(block);
    }
  }

 private:
  static constexpr uint32_t kNoPosition = 0x44444444u;

  /// The window of a cell, or -1.
  __device__ __forceinline__ int window_of(int row, int column) const {
    const bool inside = row < from.g.pool_h && column < from.g.pool_w;
    return inside ? row * from.g.pool_w + column : -1;
  }
  /// Of `count` channels from `channel` on, at the positions of a cell that there are.
  template <int count>
  __device__ __forceinline__ void store(int n, int row, int column, int channel, uint32_t codes,
                                        const Vector<T, count>& values) const {
    const ConvGeometry& g = from.g;
#pragma unroll
    for (int position = 0; position < 4; ++position) {
      const int p = 2 * row + position / 2, q = 2 * column + position % 2;
      if (p >= g.d.p || q >= g.d.q) continue;
      T* const at = to + (size_t(n * g.d.p + p) * g.d.q + q) * from.padded + channel;
      Vector<T, count> run;
#pragma unroll
      for (int e = 0; e < count; ++e)
        run.v[e] = (codes >> 4 * e & 15) == uint32_t(position) ? values.v[e] : T(0.f);
      Packed<T, count>(run).store(at);
    }
  }

  __device__ __forceinline__ void stage_planes(int block) const {
    constexpr int kVec = kWidest<T>;
    using Tiles = PlaneTiles<T>;
    PlaneTile<T>& tile = PlaneTile<T>::of_block();
    const ConvGeometry& g = from.g;
    int n, channel0, cell0;
    tiles.start(block, n, channel0, cell0);
    const int count = min(tiles.run, tiles.pixels - cell0);
    const int own = channel0 + Tiles::own_piece() * kVec;
    const uint32_t* const argmax = from.argmax + (size_t(n) * from.groups + own / 8) * g.windows;
    // Asked for before the planes are waited for, and of the next cell while one is stored.
    const auto codes_of = [&](int cell, int& row, int& column) -> uint32_t {
      if (cell >= count || own >= from.padded) return kNoPosition;
      from.by_cells_w.divmod(cell0 + cell, row, column);
      const int window = window_of(row, column);
      return window < 0 ? kNoPosition : argmax[window] >> 4 * (own % 8);
    };
    int cell = Tiles::first_pixel(), row = 0, column = 0;
    uint32_t codes = codes_of(cell, row, column);
    const T* const planes = from.dy + (size_t(n) * g.d.k + channel0) * g.windows;
    if (g.windows == tiles.pixels) {
      tiles.load(tile, planes + cell0, channel0, cell0);
    } else {
      for (int i = threadIdx.x % 32; i < count; i += 32) {
        int h, w;
        from.by_cells_w.divmod(cell0 + i, h, w);
        const int window = window_of(h, w);
#pragma unroll 2
        for (int channel = threadIdx.x / 32; channel < PlaneTile<T>::kChannels;
             channel += kStagingThreads / 32) {
          const bool inside = window >= 0 && channel0 + channel < g.d.k;
          tiles.at(tile, channel, i) = inside ? planes[channel * g.windows + window] : T(0.f);
        }
      }
    }
    __syncthreads();
    if (own >= from.padded) return;
    while (cell < count) {
      int next_row = 0, next_column = 0;
      const uint32_t next = codes_of(cell + Tiles::kStep, next_row, next_column);
      store<kVec>(n, row, column, own, codes, staged_piece(tiles.piece(tile, cell), rounds));
      cell += Tiles::kStep;
      codes = next, row = next_row, column = next_column;
    }
  }

  __device__ __forceinline__ void stage_cell(int block) const {
    constexpr int kVec = kWidest<T>;
    const int item = block * kStagingThreads + threadIdx.x;
    if (item >= from.items) return;
    int cell, channel, rest, row, column, n;
    from.by_pieces.divmod(item, cell, channel);
    from.by_cells_w.divmod(cell, rest, column);
    from.by_cells_h.divmod(rest, n, row);
    channel *= kVec;
    const int window = window_of(row, column);
    uint32_t codes = kNoPosition;
    Vector<T, kVec> values = {};
    if (window >= 0) {
      codes = from.argmax[(size_t(n) * from.groups + channel / 8) * from.g.windows + window] >>
              4 * (channel % 8);
      values = from.window(n, window, channel);
    }
    store<kVec>(n, row, column, channel, codes, staged_piece(values, rounds));
  }
};

// Mapping: the first blocks stage A, the others B.
template <class A, class B>
__global__ void __launch_bounds__(kStagingThreads, 5)
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

}  // namespace duet
