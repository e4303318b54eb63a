// dw of a 3x3 convolution of stride 1 by Hopper's wgmma: dw[filter][tap][channel] = sum over images and positions of
// dy(position)[filter] * x(position + tap)[channel].
//
// Eight images lie side by side in shared memory: a pixel is a block of eight images x 64 channels, and the sum runs over
// its images first. A tap is the same blocks some pixels further on, where an instruction may begin, as it
// could not at some place of a block. The 64 channels of the next tap of a row are those of the next pixel, so that three
// taps are one operand of 192 rows. Of 32 channels blocks are half as large, and an operand has 96 rows.
// Mapping: block = 64 filters x 64 channels (32) x nine taps of a part of dy's rows (a split of the sum). Three warpgroups
// multiply, each by the taps of one row of the kernel, 64 x 192 sums in registers. Rows of x and of dy come through a
// ring each, and a row of x serves three rows of dy. One thread of one more warp starts copies of them, where the
// channels lie last (bf16); or one more warpgroup writes them, in the order that tf32 asks for (written_rows.cuh).
// Traffic: x is read once for every 64 filters, dy once for every 64 channels (32); products of gathered operands
// (wgmma_product.cuh) read x once a tap.
#pragma once

#include "kernels/wgmma_product.cuh"

namespace duet {

/// Images that lie side by side.
struct ImageBlocks {
  static constexpr int kImages = 8;
};

/// kParts: operands are T, or float32 in two parts (wgmma_split.cuh), which lie behind each other.
template <class T, int channels = kPanel, int parts = 1>
struct FilterTile {
  static constexpr bool kTurned = std::is_same_v<T, bfloat16>;
  static constexpr int kImages = ImageBlocks::kImages, kTaps = 3, kChannels = channels;
  static constexpr int kN = kTaps * kChannels;
  static constexpr int kParts = parts;
  static_assert(kChannels == kPanel || kChannels == kPanel / 2);
  /// Of dy, and of x.
  static constexpr int kPixelBytes = kImages * kPanel * int(sizeof(T));
  static constexpr int kPixelBytesX = kImages * kChannels * int(sizeof(T));
  /// Of the terms that an instruction sums over.
  static constexpr int kPixels = 32 / (kImages * int(sizeof(T)));
  static constexpr int kMultipliers = kTaps * 128;
  /// With one warp that copies rows, or four that write them.
  __host__ __device__ static constexpr int threads(bool written) {
    return kMultipliers + (written ? 128 : 32);
  }
  static constexpr int kMostSlots = 8, kFewestX = 4, kFewestDy = 2, kMostColumns = 16;
};

/// Rows of images [n][height][width][channels], of eight images and 128 or 64 bytes of channels, that copy() brings from any row
/// and column on, these counted from the first of the zeros around: `columns` blocks of eight rows of so many bytes.
template <class T>
struct PixelRows {
  using Element = T;
  static constexpr bool kWritten = false;
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
  __device__ __forceinline__ void copy(int group, int block, int row, int column, char* shared,
                                       const CopyBarrier& barrier) const {
    copy_box(shared, map, block * depth, group * ImageBlocks::kImages, column - pad_w, row - pad_h,
             barrier);
  }
};

/// Parts of a row of positions, each of so many columns: in whole instructions, so that some may lie beyond the last.
template <class T>
struct FilterSegments {
  int count, columns;
  explicit FilterSegments(int width, int most = FilterTile<T>::kMostColumns) {
    using Tile = FilterTile<T>;
    // Columns beyond the last are multiplied as zeros, and each part of x brings two more.
    const int fewest = ceil_div(width, most);
    double best = 1e300;
    for (int parts = fewest; parts <= 2 * fewest; ++parts) {
      const int wide = round_up(ceil_div(width, parts), Tile::kPixels);
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
template <class T, int kParts = 1>
struct FilterPlan {
  using Tile = FilterTile<T, kPanel, kParts>;
  int height, columns, rows, per_split, splits;
  int tile_channels;            // 64 or 32
  int row_tiles, column_tiles;  // of 64 filters, and of so many channels
  int x_slots = Tile::kFewestX, dy_slots = Tile::kFewestDy;
  double cycles = 0;  // an estimate
  FastDivisor by_height, by_segments;

  /// A split leaves `results` floats in the workspace, which may take `limit` bytes. `written`: rows are, by threads.
  FilterPlan(int images, int height_, const FilterSegments<T>& segments, int filters, int channels,
             int64_t results, size_t limit, int multiprocessors, bool written)
      : height(height_),
        columns(segments.columns),
        rows(ceil_div(images, Tile::kImages) * segments.count * height),
        tile_channels(channels_of_tile(channels)),
        row_tiles(ceil_div(filters, kPanel)),
        column_tiles(ceil_div(channels, tile_channels)),
        by_height(height),
        by_segments(segments.count) {
    // In cycles, as WgmmaPlan's: an instruction takes one for each two of its columns.
    const double row_cycles =
        tile_channels * 1.5 * Tile::kTaps * columns / Tile::kPixels * 1.1 * (kParts == 1 ? 1 : 3);
    const int64_t tiles = int64_t{row_tiles} * column_tiles;
    double best = 1e300;
    for (int wanted = 1; wanted <= std::min(rows, 2 * multiprocessors); ++wanted) {
      const int each = ceil_div(rows, wanted), used = ceil_div(rows, each);
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
        if (smem_bytes() > (written ? kMostSharedWritten : kMostShared)) {
          --*slots;
        } else {
          grows = true;
        }
      }
    }
  }

  static int channels_of_tile(int channels) {
    // In parts there are two sums of each, for which 64 channels would take more registers than there are.
    const bool narrow = kParts > 1 || (Tile::kTurned && channels <= kPanel / 2);
    return narrow ? kPanel / 2 : kPanel;
  }
  // Of a row, all its parts.
  __host__ __device__ int x_bytes() const {
    return kParts * (columns + Tile::kTaps - 1) * Tile::kImages * tile_channels * int(sizeof(T));
  }
  __host__ __device__ int dy_bytes() const { return kParts * columns * Tile::kPixelBytes; }
  /// Of shared memory, to begin at a multiple of 1024.
  size_t smem_bytes() const {
    return 1024 + kBeforeRings + size_t(x_slots) * x_bytes() + size_t(dy_slots) * dy_bytes();
  }
  std::string text() const {
    return "tile 64x" + std::to_string(tile_channels) + " of nine taps" +
           (splits == 1 ? std::string() : ", " + std::to_string(splits) + " splits") +
           (kParts > 1                 ? ", wgmma 3xtf32"
            : std::is_same_v<T, float> ? ", wgmma tf32"
                                       : ", wgmma bf16");
  }

  static constexpr int kBeforeRings = 2048;  // barriers, and ones
  static constexpr size_t kMostShared = 227 * 1024;
  /// Of a multiprocessor the rest is the L1 cache, where threads find what others have of the same 32 bytes.
  static constexpr size_t kMostSharedWritten = 195 * 1024;
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
template <class Plan, class Visit>
__device__ __forceinline__ void for_strips(const Plan& plan, int split, Visit visit) {
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

/// Adds a row's products; when it returns the row before has been read.
template <class Tile, class T, bool kSums, class Plan>
__device__ __forceinline__ void add_row(const Plan& plan, const char* x, const char* dy,
                                        const char* ones, float (&sum)[Tile::kN / 2],
                                        float (&row_sum)[4]) {
  // Of so many bytes a pixel.
  const auto operand = []<int bytes>(std::integral_constant<int, bytes>, const char* at) {
    if constexpr (Tile::kTurned) {
      return matrix_descriptor<bytes / Tile::kImages>(at, bytes);
    } else {
      return core_descriptor(at);
    }
  };
  constexpr std::integral_constant<int, Tile::kPixelBytes> kOfDy;
  constexpr std::integral_constant<int, Tile::kPixelBytesX> kOfX;
#pragma unroll 1
  for (int column = 0; column < plan.columns; column += Tile::kPixels) {
    wgmma_begin();
    Wgmma<T, Tile::kN, Tile::kTurned, Tile::kTurned>::multiply(sum, operand(kOfDy, dy),
                                                               operand(kOfX, x), true);
    if constexpr (kSums)
      Wgmma<T, 8, Tile::kTurned, false>::multiply(row_sum, operand(kOfDy, dy),
                                                  core_descriptor(ones), true);
    x += Tile::kPixels * Tile::kPixelBytesX;
    dy += Tile::kPixels * Tile::kPixelBytes;
  }
  wgmma_commit();
  wgmma_wait<1>();
}

/// Adds a row's products of float32 in parts. The units sum a row, of which the small products come first, and rows are added
/// up by ordinary additions.
template <class Tile, bool kSums, class Plan>
__device__ __forceinline__ void add_split_row(const Plan& plan, const char* x, const char* dy,
                                              const char* ones, float (&sum)[Tile::kN / 2],
                                              float (&row_sum)[4]) {
  float d[Tile::kN / 2], row_d[4];
  const auto multiply = [&](const char* of_dy, const char* of_x, bool adds, bool of_sums) {
#pragma unroll 1
    for (int column = 0; column < plan.columns; ++column) {
      wgmma_begin();
      Wgmma<float, Tile::kN, false, false>::multiply(d, core_descriptor(of_dy),
                                                     core_descriptor(of_x), adds);
      if (kSums && of_sums)
        Wgmma<float, 8, false, false>::multiply(row_d, core_descriptor(of_dy),
                                                core_descriptor(ones), adds);
      adds = true;
      of_x += Tile::kPixelBytesX;
      of_dy += Tile::kPixelBytes;
    }
  };
  const char *const rest_x = x + plan.x_bytes() / 2, *const rest_dy = dy + plan.dy_bytes() / 2;
  multiply(rest_dy, x, false, true);
  multiply(dy, rest_x, true, false);
  multiply(dy, x, true, true);
  wgmma_commit();
  wgmma_wait<0>();
  wgmma_settle(d);
#pragma unroll
  for (int i = 0; i < Tile::kN / 2; ++i) sum[i] += d[i];
  if constexpr (kSums) {
    wgmma_settle(row_d);
#pragma unroll
    for (int i = 0; i < 4; ++i) row_sum[i] += row_d[i];
  }
}

/// Adds up a split's products of the taps of a row of the kernel, and with kSums dy.
template <class Tile, class T, bool kSums, class Plan>
__device__ __forceinline__ void multiply_rows(const Plan& plan, int split, int group,
                                              FilterBarriers& barriers, const char* x_ring,
                                              const char* dy_ring, const char* ones,
                                              float (&d)[Tile::kN / 2], float (&row_sums)[4]) {
  constexpr int kTaps = Tile::kTaps;
  const bool leads = threadIdx.x % 128 == 0;
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
      if constexpr (Tile::kParts == 1) {
        add_row<Tile, T, kSums>(plan, of_x, of_dy, ones, d, row_sums);
        give_back();  // the row before
        at_x.next(plan.x_slots), at_dy.next(plan.dy_slots);
      } else {
        add_split_row<Tile, kSums>(plan, of_x, of_dy, ones, d, row_sums);
        at_x.next(plan.x_slots), at_dy.next(plan.dy_slots);
        give_back();
      }
    }
    wgmma_wait<0>();
    for (int i = group; i < kTaps - 1; ++i) skip_row();
    give_back();
  });
  if constexpr (Tile::kParts == 1) {
    wgmma_settle(d);
    if constexpr (kSums) wgmma_settle(row_sums);
  }
}

#endif

#if DUET_HAS_WGMMA

/// By one thread: starts the copies of a split's rows.
template <class Tile, class Rows, class Plan>
__device__ __forceinline__ void copy_rows(const Plan& plan, int split, int column_tile,
                                          int row_tile, const Rows& x, const Rows& dy,
                                          FilterBarriers& barriers, char* x_ring, char* dy_ring) {
  constexpr int kTaps = Tile::kTaps;
  const int x_bytes = plan.x_bytes(), dy_bytes = plan.dy_bytes();
  RingPlace at_x, at_dy;
  for_strips(plan, split, [&](int images, int column, int row, int count) {
    for (int i = 0; i < count + kTaps - 1; ++i) {
      if (at_x.round > 0) barriers.x_empty[at_x.slot].wait(at_x.round - 1);
      barriers.x_full[at_x.slot].expect(x_bytes);
      x.copy(images, column_tile, row + i, column, x_ring + at_x.slot * x_bytes,
             barriers.x_full[at_x.slot]);
      at_x.next(plan.x_slots);
      if (i < kTaps - 1) continue;  // what a row of dy meets comes before it
      if (at_dy.round > 0) barriers.dy_empty[at_dy.slot].wait(at_dy.round - 1);
      barriers.dy_full[at_dy.slot].expect(dy_bytes);
      dy.copy(images, row_tile, row + i - (kTaps - 1), column, dy_ring + at_dy.slot * dy_bytes,
              barriers.dy_full[at_dy.slot]);
      at_dy.next(plan.dy_slots);
    }
  });
}

/// By a warpgroup: writes them. A row of x is asked for before there is room for it.
template <class Tile, class X, class Dy, class Plan>
__device__ __forceinline__ void write_rows(const Plan& plan, int split, int column_tile,
                                           int row_tile, const X& x, const Dy& dy,
                                           FilterBarriers& barriers, char* x_ring, char* dy_ring) {
  static_assert(X::kTogether == 1 && Dy::kTogether <= Tile::kFewestDy);
  constexpr int kBefore = Tile::kTaps - 1;  // rows of x that the first of dy meets before its own
  const int x_bytes = plan.x_bytes(), dy_bytes = plan.dy_bytes();
  const auto announce = [](CopyBarrier& full) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) full.arrive();
  };
  RingPlace at_x, at_dy;
  for_strips(plan, split, [&](int images, int column, int row, int count) {
    typename X::Values next;
    x.load(next, images, column_tile, row, column, 0);
    int written = 0;  // rows of dy
    for (int i = 0; i < count + kBefore; ++i) {
      if (at_x.round > 0) barriers.x_empty[at_x.slot].wait(at_x.round - 1);
      char* const to[] = {x_ring + at_x.slot * x_bytes};
      x.store(next, row + i, column, 0, to, 1);
      for (int turn = 1; turn < x.turns(); ++turn) {
        x.load(next, images, column_tile, row + i, column, turn);
        x.store(next, row + i, column, turn, to, 1);
      }
      announce(barriers.x_full[at_x.slot]);
      at_x.next(plan.x_slots);
      if (i + 1 < count + kBefore) x.load(next, images, column_tile, row + i + 1, column, 0);
      if (i - kBefore < written) continue;
      // A row is given back when the next is multiplied.
      const int rows = min(dy.rows(row + written, count - written), plan.dy_slots - 1);
      typename Dy::Values values;
      dy.load(values, images, row_tile, row + written, column, 0);
      RingPlace place = at_dy;
      char* of_dy[Dy::kTogether];
#pragma unroll
      for (int r = 0; r < Dy::kTogether; ++r) {
        of_dy[r] = dy_ring + place.slot * dy_bytes;
        if (r >= rows) break;
        if (place.round > 0) barriers.dy_empty[place.slot].wait(place.round - 1);
        place.next(plan.dy_slots);
      }
      dy.store(values, row + written, column, 0, of_dy, rows);
      for (int turn = 1; turn < dy.turns(); ++turn) {
        dy.load(values, images, row_tile, row + written, column, turn);
        dy.store(values, row + written, column, turn, of_dy, rows);
      }
      for (int r = 0; r < rows; ++r, at_dy.next(plan.dy_slots))
        announce(barriers.dy_full[at_dy.slot]);
      written += rows;
    }
  });
}

#endif

// blockIdx.x is a tile of filters and channels, y a split. Split s of dw [filter][tap][channel], with whole
// tiles of channels, goes to parts + s * stride, and with `sums` that of dy's sums behind it.
template <class Tile, class X, class Dy, class Plan>
__global__ void __launch_bounds__(Tile::threads(X::kWritten), 1)
    wgmma_filter_kernel(const __grid_constant__ X x, const __grid_constant__ Dy dy,
                        const __grid_constant__ Plan plan, int filters, bool sums,
                        float* __restrict__ parts, size_t stride) {
#if DUET_HAS_WGMMA
  using T = typename X::Element;
  constexpr bool kWritten = X::kWritten;
  constexpr int kTaps = Tile::kTaps, kThreads = Tile::threads(kWritten);
  extern __shared__ char dynamic[];
  char* const aligned = dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023);
  auto& barriers = *reinterpret_cast<FilterBarriers*>(aligned);
  static_assert(sizeof(FilterBarriers) <= 1024);
  char* const ones = aligned + 1024;
  const int x_bytes = plan.x_bytes(), dy_bytes = plan.dy_bytes();
  char* const x_ring = aligned + Plan::kBeforeRings;
  char* const dy_ring = x_ring + plan.x_slots * x_bytes;
  // Of which the compiler is to know that a warp's threads agree.
  const int group = __shfl_sync(~0u, threadIdx.x / 128, 0);
  const int tid = threadIdx.x, split = blockIdx.y;
  const int row_tile = blockIdx.x % plan.row_tiles, column_tile = blockIdx.x / plan.row_tiles;
  if (tid == 0) {
    for (int i = 0; i < FilterBarriers::kSlots; ++i) {
      barriers.x_full[i].init(kWritten ? 4 : 1);  // by warps
      barriers.dy_full[i].init(kWritten ? 4 : 1);
      barriers.x_empty[i].init(kTaps);
      barriers.dy_empty[i].init(kTaps);
    }
  }
  for (int i = tid; i < 1024 / int(sizeof(T)); i += kThreads)
    reinterpret_cast<T*>(ones)[i] = T(1.f);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (group == kTaps) {
    if (!kWritten && tid != Tile::kMultipliers) return;
    wait_for_primary();
    if constexpr (kWritten) {
      write_rows<Tile>(plan, split, column_tile, row_tile, x, dy, barriers, x_ring, dy_ring);
    } else {
      copy_rows<Tile>(plan, split, column_tile, row_tile, x, dy, barriers, x_ring, dy_ring);
    }
  } else {
    float d[Tile::kN / 2] = {}, row_sums[4] = {};
    const bool sums_here = sums && column_tile == 0 && group == 1;
    sums_here ? multiply_rows<Tile, T, true>(plan, split, group, barriers, x_ring, dy_ring, ones, d,
                                             row_sums)
              : multiply_rows<Tile, T, false>(plan, split, group, barriers, x_ring, dy_ring, ones,
                                              d, row_sums);
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

/// Of rows that are copied or written.
template <class X, class Dy, int kParts, class T = typename X::Element>
void launch_wgmma_filter(const X& x, const Dy& dy, const FilterPlan<T, kParts>& plan, int filters,
                         bool sums, float* parts, size_t stride, cudaStream_t stream) {
  const auto launch_of = [&]<class Tile>(Tile) {
    const auto kernel = wgmma_filter_kernel<Tile, X, Dy, FilterPlan<T, kParts>>;
    const size_t bytes = plan.smem_bytes();
    DUET_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
    launch({.gridDim = dim3(plan.row_tiles * plan.column_tiles, plan.splits),
            .blockDim = Tile::threads(X::kWritten),
            .dynamicSmemBytes = bytes,
            .stream = stream},
           {overlaps_primary()}, kernel, x, dy, plan, filters, sums, parts, stride);
  };
  if constexpr (FilterTile<T>::kTurned) {
    if (plan.tile_channels < kPanel) return launch_of(FilterTile<T, kPanel / 2>{});
  }
  launch_of(FilterTile < T, kParts == 1 ? kPanel : kPanel / 2, kParts > {});
}

}  // namespace duet
