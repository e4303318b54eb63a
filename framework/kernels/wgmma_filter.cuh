// dw of a 3x3 convolution of stride 1 in bf16 by Hopper's wgmma: dw[filter][tap][channel] = sum over images and positions of
// dy(position)[filter] * x(position + tap)[channel].
//
// Eight images lie side by side in shared memory: a pixel is a block of eight images x 64 channels, and the sum runs over
// its images first. A tap is the same blocks some pixels further on, where an instruction may begin, as it
// could not at some place of a block. The 64 channels of the next tap of a row are those of the next pixel, so that three
// taps are one operand of 192 rows. Of 32 channels blocks are half as large, and an operand has 96 rows.
// Mapping: block = 64 filters x 64 channels (32) x nine taps of a part of dy's rows (a split of the sum). Three warpgroups
// multiply, each by the taps of one row of the kernel, 64 x 192 sums in registers. One thread of one more warp
// starts copies of rows of x and of dy, each to a ring of its own: a row of x serves three rows of dy.
// Traffic: x is read once for every 64 filters, dy once for every 64 channels; products of gathered operands
// (wgmma_product.cuh) read x once a tap.
// In tf32, wgmma_filter_rows.cuh.
#pragma once

#include "kernels/image_blocks.cuh"
#include "kernels/wgmma_product.cuh"

namespace duet {

template <class T, int channels = kPanel>
struct FilterTile {
  static constexpr int kImages = ImageBlocks::kImages, kTaps = 3, kChannels = channels;
  static constexpr int kN = kTaps * kChannels;
  static_assert(kChannels == kPanel || kChannels == kPanel / 2);
  /// Of dy, and of x.
  static constexpr int kPixelBytes = kImages * kPanel * int(sizeof(T));
  static constexpr int kPixelBytesX = kImages * kChannels * int(sizeof(T));
  /// Of the terms that an instruction sums over.
  static constexpr int kPixels = 32 / (kImages * int(sizeof(T)));
  static constexpr int kMultipliers = kTaps * 128, kThreads = kMultipliers + 32;
  static constexpr int kMostSlots = 8, kFewestX = 4, kFewestDy = 2, kMostColumns = 16;
};

/// Rows of images [n][height][width][channels], of eight images and 128 or 64 bytes of channels, that copy() brings from any row
/// and column on, these counted from the first of the zeros around: `columns` blocks of eight rows of so many bytes.
template <class T>
struct PixelRows {
  CUtensorMap map;
  int pad_h, pad_w, depth;
  PixelRows(const T* images, int count, int height, int width, int channels, int pad_h_, int pad_w_,
            int columns, int row_bytes = kRowBytes)
      : pad_h(pad_h_), pad_w(pad_w_), depth(row_bytes / int(sizeof(T))) {
    map = tensor_map(images, {{{channels, 1, depth},
                               {count, int64_t{height} * width * channels, ImageBlocks::kImages},
                               {width, channels, columns},
                               {height, int64_t{width} * channels}}});
  }
  __device__ __forceinline__ void copy(int group, int block, int row, int column, uint32_t,
                                       char* shared, const CopyBarrier& barrier) const {
    copy_box(shared, map, block * depth, group * ImageBlocks::kImages, column - pad_w, row - pad_h,
             barrier);
  }
};

/// Parts of a row of positions, each of so many columns: in whole instructions, so that some may lie beyond the last.
template <class T>
struct FilterSegments {
  int count, columns;
  /// With `pairs`, of an even number of columns each.
  explicit FilterSegments(int width, bool pairs = false) {
    using Tile = FilterTile<T>;
    const int unit = pairs ? 2 : Tile::kPixels;
    // Columns beyond the last are multiplied as zeros, and each part of x brings two more.
    const int fewest = ceil_div(width, Tile::kMostColumns);
    double best = 1e300;
    for (int parts = fewest; parts <= 2 * fewest; ++parts) {
      const int wide = round_up(ceil_div(width, parts), unit);
      const double cost = parts * (wide + 0.5);
      if (cost >= best) continue;
      best = cost;
      count = parts, columns = wide;
    }
  }
  int all_columns() const { return count * columns; }
};

/// How the sum is cut: a row of dy is one segment of it, of eight images; a split has `per_split` such rows. Rings have
/// x_slots and dy_slots rows.
template <class T>
struct FilterPlan {
  using Tile = FilterTile<T>;
  int height, columns, rows, per_split, splits;
  int tile_channels;            // 64 or 32
  int row_tiles, column_tiles;  // of 64 filters, and of so many channels
  int x_slots = Tile::kFewestX, dy_slots = Tile::kFewestDy;
  bool pooled;        // of float: dy is of windows
  double cycles = 0;  // an estimate
  FastDivisor by_height, by_segments;

  /// A split leaves `results` floats in the workspace, which may take `limit` bytes.
  FilterPlan(int images, int height_, const FilterSegments<T>& segments, int filters, int channels,
             int64_t results, size_t limit, int multiprocessors, bool pooled_ = false)
      : height(height_),
        columns(segments.columns),
        rows(ceil_div(images, Tile::kImages) * segments.count * height),
        tile_channels(channels_of_tile(channels)),
        row_tiles(ceil_div(filters, kPanel)),
        column_tiles(ceil_div(channels, tile_channels)),
        pooled(pooled_),
        by_height(height),
        by_segments(segments.count) {
    // In cycles, as WgmmaPlan's: an instruction takes one for each two of its columns.
    const double row_cycles = tile_channels * 1.5 * Tile::kTaps * columns / Tile::kPixels * 1.1;
    const int64_t tiles = int64_t{row_tiles} * column_tiles;
    double best = 1e300;
    for (int wanted = 1; wanted <= std::min(rows, 2 * multiprocessors); ++wanted) {
      const int each = round_up(ceil_div(rows, wanted), pooled ? 2 : 1),
                used = ceil_div(rows, each);
      if (used != wanted) continue;
      if (used > 1 && double(used) * results * sizeof(float) > double(limit)) break;
      const int64_t waves = (tiles * used + multiprocessors - 1) / multiprocessors;
      const double cost = double(waves) * (each * row_cycles + 8000) + 8. * used * results / 2000;
      if (cost >= best) continue;
      best = cycles = cost;
      per_split = each, splits = used;
    }
    for (bool grows = true; grows;) {
      grows = false;
      for (int* slots : {&x_slots, &dy_slots}) {
        if (*slots == Tile::kMostSlots) continue;
        ++*slots;
        if (smem_bytes() > kMostShared) {
          --*slots;
        } else {
          grows = true;
        }
      }
    }
  }

  static int channels_of_tile(int channels) {
    return std::is_same_v<T, bfloat16> && channels <= kPanel / 2 ? kPanel / 2 : kPanel;
  }
  __host__ __device__ int x_bytes() const {
    if constexpr (std::is_same_v<T, float>)
      return (columns + Tile::kTaps - 1) * ImageBlocks::kPitch * int(sizeof(float));
    return (columns + Tile::kTaps - 1) * Tile::kImages * tile_channels * int(sizeof(T));
  }
  __host__ __device__ int dy_bytes() const {
    if constexpr (std::is_same_v<T, float>)
      return (pooled ? columns / 2 * (ImageBlocks::kPitch + ImageBlocks::kCodePitch)
                     : columns * ImageBlocks::kPitch) *
             int(sizeof(float));
    return columns * Tile::kPixelBytes;
  }
  /// Of shared memory, to begin at a multiple of 1024.
  size_t smem_bytes() const {
    return 1024 + kBeforeRings + size_t(x_slots) * x_bytes() + size_t(dy_slots) * dy_bytes();
  }
  std::string text() const {
    return "tile 64x" + std::to_string(tile_channels) + " of nine taps" +
           (splits == 1 ? std::string() : ", " + std::to_string(splits) + " splits") +
           (std::is_same_v<T, float> ? ", wgmma tf32" : ", wgmma bf16");
  }

  static constexpr int kBeforeRings = 2048;  // barriers, and ones
  static constexpr size_t kMostShared = 227 * 1024;
};

#if DUET_HAS_WGMMA

/// Where in a ring something is, and how often that place was used before.
struct RingPlace {
  int slot = 0, round = 0;
  __device__ __forceinline__ void next(int slots) {
    if (++slot == slots) slot = 0, ++round;
  }
};

/// Calls visit(image group, segment's first column, first row, rows) for the parts of a split, each
/// of rows below each other.
template <class T, class Visit>
__device__ __forceinline__ void for_strips(const FilterPlan<T>& plan, int split, Visit visit) {
  const int last = min(plan.rows, (split + 1) * plan.per_split);
  for (int at = split * plan.per_split; at < last;) {
    int strip, row, group, segment;
    plan.by_height.divmod(at, strip, row);
    plan.by_segments.divmod(strip, group, segment);
    const int count = min(plan.height - row, last - at);
    visit(group, segment * plan.columns, row, count);
    at += count;
  }
}

#endif

struct FilterBarriers {
  static constexpr int kSlots = FilterTile<float>::kMostSlots;
  CopyBarrier x_full[kSlots], x_empty[kSlots], dy_full[kSlots], dy_empty[kSlots];
};

#if DUET_HAS_WGMMA

/// Adds up a split's products of the taps of a row of the kernel, and with kSums dy.
template <class Tile, bool kSums, class T>
__device__ __forceinline__ void multiply_rows(const FilterPlan<T>& plan, int split, int group,
                                              FilterBarriers& barriers, const char* x_ring,
                                              const char* dy_ring, const char* ones,
                                              float (&d)[Tile::kN / 2], float (&row_sums)[4]) {
  constexpr int kTaps = Tile::kTaps;
  const bool leads = threadIdx.x % 128 == 0;
  // Of so many bytes a pixel.
  const auto operand = []<int bytes>(std::integral_constant<int, bytes>, const char* at) {
    return matrix_descriptor<bytes / Tile::kImages>(at, bytes);
  };
  constexpr std::integral_constant<int, Tile::kPixelBytes> kOfDy;
  constexpr std::integral_constant<int, Tile::kPixelBytesX> kOfX;
  RingPlace at_x, at_dy, kept_x, kept_dy;
  const auto skip_row = [&] {
    barriers.x_full[at_x.slot].wait(at_x.round);
    at_x.next(plan.x_slots);
  };
  // All rows before at_x and at_dy have been read.
  const auto give_back = [&] {
    for (; kept_x.slot != at_x.slot; kept_x.next(plan.x_slots))
      if (leads) barriers.x_empty[kept_x.slot].arrive();
    for (; kept_dy.slot != at_dy.slot; kept_dy.next(plan.dy_slots))
      if (leads) barriers.dy_empty[kept_dy.slot].arrive();
  };
  for_strips(plan, split, [&](int, int, int, int count) {
    for (int i = 0; i < group; ++i) skip_row();
    for (int i = 0; i < count; ++i) {
      barriers.x_full[at_x.slot].wait(at_x.round);
      barriers.dy_full[at_dy.slot].wait(at_dy.round);
      const char* of_x = x_ring + at_x.slot * plan.x_bytes();
      const char* of_dy = dy_ring + at_dy.slot * plan.dy_bytes();
#pragma unroll 1
      for (int column = 0; column < plan.columns; column += Tile::kPixels) {
        wgmma_begin();
        Wgmma<T, Tile::kN, true, true>::multiply(d, operand(kOfDy, of_dy), operand(kOfX, of_x),
                                                 true);
        if constexpr (kSums)
          Wgmma<T, 8, true, false>::multiply(row_sums, operand(kOfDy, of_dy), core_descriptor(ones),
                                             true);
        of_x += Tile::kPixels * Tile::kPixelBytesX;
        of_dy += Tile::kPixels * Tile::kPixelBytes;
      }
      wgmma_begin();
      wgmma_commit();
      wgmma_wait<1>();  // the row before has been read
      give_back();
      at_x.next(plan.x_slots), at_dy.next(plan.dy_slots);
    }
    wgmma_wait<0>();
    for (int i = group; i < kTaps - 1; ++i) skip_row();
    give_back();
  });
  wgmma_settle(d);
  if constexpr (kSums) wgmma_settle(row_sums);
}

#endif

// blockIdx.x is a tile of filters and channels, y a split. Split s of dw [filter][tap][channel], with whole
// tiles of channels, goes to parts + s * stride, and with `sums` that of dy's sums behind it.
template <class Tile, class T>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    wgmma_filter_kernel(const __grid_constant__ PixelRows<T> x,
                        const __grid_constant__ PixelRows<T> dy,
                        const __grid_constant__ FilterPlan<T> plan, int filters, bool sums,
                        float* __restrict__ parts, size_t stride) {
#if DUET_HAS_WGMMA
  constexpr int kTaps = Tile::kTaps;
  extern __shared__ char dynamic[];
  char* const aligned = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto& barriers = *reinterpret_cast<FilterBarriers*>(aligned);
  static_assert(sizeof(FilterBarriers) <= 1024);
  char* const ones = aligned + 1024;
  const int x_bytes = plan.x_bytes(), dy_bytes = plan.dy_bytes();
  char* const x_ring = aligned + FilterPlan<T>::kBeforeRings;
  char* const dy_ring = x_ring + plan.x_slots * x_bytes;
  // Of which the compiler is to know that a warp's threads agree.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int tid = threadIdx.x, split = blockIdx.y;
  const int row_tile = blockIdx.x % plan.row_tiles, column_tile = blockIdx.x / plan.row_tiles;
  if (tid == 0) {
    for (int i = 0; i < FilterBarriers::kSlots; ++i) {
      barriers.x_full[i].init();
      barriers.dy_full[i].init();
      barriers.x_empty[i].init(kTaps);
      barriers.dy_empty[i].init(kTaps);
    }
  }
  for (int i = tid; i < 1024 / int(sizeof(T)); i += Tile::kThreads)
    reinterpret_cast<T*>(ones)[i] = T(1.f);
  fence_async_proxy();
  __syncthreads();
  if (group == kTaps) {
    if (tid != Tile::kMultipliers) return;
    wait_for_primary();
    RingPlace at_x, at_dy;
    for_strips(plan, split, [&](int images, int column, int row, int count) {
      for (int i = 0; i < count + kTaps - 1; ++i) {
        if (at_x.round > 0) barriers.x_empty[at_x.slot].wait(at_x.round - 1);
        barriers.x_full[at_x.slot].expect(x_bytes);
        x.copy(images, column_tile, row + i, column, x_bytes, x_ring + at_x.slot * x_bytes,
               barriers.x_full[at_x.slot]);
        at_x.next(plan.x_slots);
        if (i < kTaps - 1) continue;  // what a row of dy meets comes before it
        if (at_dy.round > 0) barriers.dy_empty[at_dy.slot].wait(at_dy.round - 1);
        barriers.dy_full[at_dy.slot].expect(dy_bytes);
        dy.copy(images, row_tile, row + i - (kTaps - 1), column, dy_bytes,
                dy_ring + at_dy.slot * dy_bytes, barriers.dy_full[at_dy.slot]);
        at_dy.next(plan.dy_slots);
      }
    });
  } else {
    float d[Tile::kN / 2] = {}, row_sums[4] = {};
    const bool sums_here = sums && column_tile == 0 && group == 1;
    sums_here ? multiply_rows<Tile, true>(plan, split, group, barriers, x_ring, dy_ring, ones, d,
                                          row_sums)
              : multiply_rows<Tile, false>(plan, split, group, barriers, x_ring, dy_ring, ones, d,
                                           row_sums);
    float* const to = parts + split * stride;
    const int lane = tid % 32, channels = plan.column_tiles * Tile::kChannels;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int filter = row_tile * kPanel + tid % 128 / 32 * 16 + lane / 4 + 8 * i;
      if (filter >= filters) continue;
      float* const of_filter = to + (size_t(filter) * kTaps + group) * kTaps * channels +
                               column_tile * Tile::kChannels + lane % 4 * 2;
      constexpr int kPieces = Tile::kChannels / 8;
#pragma unroll
      for (int j = 0; j < Tile::kN / 8; ++j)
        *reinterpret_cast<float2*>(of_filter + j / kPieces * channels + j % kPieces * 8) = {
            d[4 * j + 2 * i], d[4 * j + 2 * i + 1]};
      if (sums_here && lane % 4 == 0)
        to[size_t(filters) * kTaps * kTaps * channels + filter] = row_sums[2 * i];
    }
  }
#else
  __trap();
#endif
}

template <class T>
void launch_wgmma_filter(const PixelRows<T>& x, const PixelRows<T>& dy, const FilterPlan<T>& plan,
                         int filters, bool sums, float* parts, size_t stride, cudaStream_t stream) {
  const auto launch_of = [&]<class Tile>(Tile) {
    const auto kernel = wgmma_filter_kernel<Tile, T>;
    const size_t bytes = plan.smem_bytes();
    DUET_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    launch({.gridDim = dim3(plan.row_tiles * plan.column_tiles, plan.splits),
            .blockDim = Tile::kThreads,
            .dynamicSmemBytes = bytes,
            .stream = stream},
           {overlaps_primary()}, kernel, x, dy, plan, filters, sums, parts, stride);
  };
  plan.tile_channels < kPanel ? launch_of(FilterTile<T, kPanel / 2>{}) : launch_of(FilterTile<T>{});
}

}  // namespace duet
