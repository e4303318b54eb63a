// A product of bfloat16, tf32 or split float32 by Hopper's wgmma: out[row][column] = sum of A(row, k) *
// B(column, k), operands brought by the copy engine (wgmma_operands.cuh).
//
// Mapping: blocks, as many as run at once (with Result::kTakesStages: one a tile), take tiles of 128 rows x kN by
// turns. Two warpgroups multiply, 64 rows each, all sums in registers; a thread of one more warp starts copies, up to
// kStages steps of 64 (tf32: 32) terms ahead, and of the next tile while one is stored. A stage passes to and fro by
// two barriers: `full`, when the copies have come, and `empty`, when both warpgroups have read it. Where A's row sums are
// wanted (a bias' gradient), tiles of the first columns multiply A by ones too.
// Split tiles multiply float32 in 3xTF32 (wgmma_split.cuh); operands of float that lie turned: wgmma_turned.cuh.
// Traffic: A is read once a column of tiles, B once a row of them, by 128 bytes, mostly from L2.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "device/launch.h"
#include "device/likely_multiprocessors.h"
#include "kernels/split_reduction.cuh"
#include "kernels/vector.cuh"
#include "kernels/wgmma.cuh"
#include "kernels/wgmma_operands.cuh"
#include "kernels/wgmma_split.cuh"
#include "kernels/wgmma_turned.cuh"

namespace duet {

/// Of 128 x `columns`, `blocks` of them on a multiprocessor at once; `split`: in 3xTF32.
template <int columns, int stages, int blocks, bool split = false>
struct WgmmaTile {
  static constexpr int kM = 128, kN = columns, kStages = stages, kBlocks = blocks;
  static constexpr bool kSplit = split;
  static constexpr int kMultipliers = 256;
};
/// Threads that split B or turn it (three warps), and of a block: one warp copies.
template <class Tile, class B>
inline constexpr int kWgmmaHelpers = Tile::kSplit || kIsTurnedFloat<B> ? 96 : 0;
template <class Tile, class B>
inline constexpr int kWgmmaThreads = Tile::kMultipliers + 32 + kWgmmaHelpers<Tile, B>;

template <class Tile>
struct WgmmaStage {
  alignas(1024) char a[Tile::kM * kRowBytes];
  alignas(1024) char b[Tile::kN * kRowBytes];
};
template <class Tile>
struct WgmmaSplitStage : WgmmaStage<Tile> {
  alignas(1024) char rest_b[Tile::kN * kRowBytes];
};
template <class Tile, class T>
struct WgmmaSmem {
  std::conditional_t<Tile::kSplit, WgmmaSplitStage<Tile>, WgmmaStage<Tile>> stage[Tile::kStages];
  alignas(1024) T ones[8 * kStepDepth<T>];
  CopyBarrier full[Tile::kStages], empty[Tile::kStages], split[Tile::kStages];
  int row_at[Tile::kM];

  /// By a warpgroup that has read a stage.
  __device__ __forceinline__ void release(int number) {
    if (threadIdx.x % 128 == 0) empty[number].arrive();
  }
};

/// A tile of the product: its numbers among tiles of A's rows, B's rows and splits of the sum.
struct WgmmaPlace {
  int row, column, split;
};

/// Tiles in the order that blocks take them: bands of 2048 rows one after the other, each from column to column, so that
/// those under way at once are about a square and share what L2 holds.
struct WgmmaTiles {
  int rows, columns, splits;  // of tiles
  __host__ __device__ int count() const { return rows * columns * splits; }
  template <class Tile>
  __device__ __forceinline__ WgmmaPlace place(int number) const {
    constexpr int kBand = 2048 / Tile::kM;
    const int split = number / (rows * columns), at = number - split * rows * columns;
    const int first = at / (kBand * columns) * kBand, height = min(kBand, rows - first);
    const int in_band = at - first * columns, column = in_band / height;
    return {first + in_band - column * height, column, split};
  }
};

/// Where a result takes the operands' memory, it holds the tile after the product.
template <class Tile>
struct WgmmaTileMemory {
  char* tile;                                       // kBytes
  int* row_at;                                      // of kM rows
  static constexpr int kPixelPitch = Tile::kM + 4;  // of columns
  static constexpr size_t kBytes = sizeof(float) * Tile::kN * kPixelPitch;
};

/// Row i, 0 or 1, of the tile that this thread has sums of (wgmma.cuh).
__device__ __forceinline__ int my_row(int i) {
  return int(threadIdx.x) / 32 * 16 + int(threadIdx.x) % 32 / 4 + 8 * i;
}
/// The bias (or nullptr) of a tile's columns, from n0 on. A lane loads what others need too, all at once and before the
/// product: a load for each column in its turn would be waited for each time.
template <class Tile>
class TileBias {
 public:
  __device__ __forceinline__ TileBias(const float* bias, int n0, int columns)
      : there_(bias != nullptr) {
    if (!there_) return;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      const int column = n0 + 32 * g + int(threadIdx.x) % 32;
      of_lane_[g] = column < columns ? bias[column] : 0.f;
    }
  }
  __device__ __forceinline__ void add_to(float (&d)[Tile::kN / 2]) const {
    if (!there_) return;
#pragma unroll
    for (int j = 0; j < Tile::kN / 8; ++j) {
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int lane = j % 4 * 8 + int(threadIdx.x) % 4 * 2 + e;
        const float b = __shfl_sync(~0u, of_lane_[j / 4], lane);
        d[4 * j + e] += b;
        d[4 * j + 2 + e] += b;
      }
    }
  }

 private:
  static constexpr int kGroups = Tile::kN / 32;
  bool there_;
  float of_lane_[kGroups];
};

/// The sums as float [column][row], rows WgmmaTileMemory::kPixelPitch long; and all multiplying threads
/// see them.
template <class Tile>
__device__ __forceinline__ const float* columns_to_shared(const float (&d)[Tile::kN / 2],
                                                          const WgmmaTileMemory<Tile>& memory) {
  auto* const tile = reinterpret_cast<float*>(memory.tile);
#pragma unroll
  for (int k = 0; k < Tile::kN / 2; ++k) {
    const int column = k / 4 * 8 + int(threadIdx.x) % 4 * 2 + k % 2;
    tile[column * WgmmaTileMemory<Tile>::kPixelPitch + my_row(k / 2 % 2)] = d[k];
  }
  wait_multipliers<Tile>();
  return tile;
}

/// Of two lanes whose numbers differ in `bit`, the one without it gets the other's `low` as its `high`, and the other
/// the first one's `high` as its `low`.
__device__ __forceinline__ void trade_words(uint32_t& low, uint32_t& high, int bit) {
  const bool upper = threadIdx.x & bit;
  const uint32_t other = __shfl_xor_sync(~0u, upper ? low : high, bit);
  low = upper ? other : low;
  high = upper ? high : other;
}
/// Of four lanes in a row each has T of two columns of eight, of as many eights as fill its 16 bytes: then each has 16
/// bytes of columns side by side, from gathered_column() on.
template <class T>
__device__ __forceinline__ void gather_row(uint32_t (&word)[4]) {
  trade_words(word[0], word[2], 4 / sizeof(T));
  trade_words(word[1], word[3], 4 / sizeof(T));
  if constexpr (sizeof(T) == 4) return;
  trade_words(word[0], word[1], 1);
  trade_words(word[2], word[3], 1);
}
template <class T>
__device__ __forceinline__ int gathered_column() {
  const int quad = int(threadIdx.x) % 4;
  return sizeof(T) == 4 ? quad % 2 * 8 + quad / 2 * 4 : quad * 8;
}

/// Where a product goes: images of `columns` channels and `pixels` in kLayout, + bias (or nullptr),
/// and of that Function, which has no state; a matrix is one NHWC image of as many pixels as it has rows. Split s of the sum writes to
/// out + s * stride, and A's row sums, if wanted, to row_sums + s * stride.
///
/// Any result has bias, columns, stride and row_sums, and store() of sums with the bias by the multiplying threads; with
/// kTakesStages when nobody reads the stages any more, else from registers, while copies of the block's next tile come.
template <Layout kLayout, class T, class Function = std::identity>
struct WgmmaResult {
  static constexpr bool kTakesStages = kLayout == Layout::kNCHW;
  T* out;
  const float* bias;
  int columns, pixels;
  size_t stride = 0;
  float* row_sums = nullptr;

  template <class Tile, class A>
  __device__ __forceinline__ void store(const float (&d)[Tile::kN / 2], const A& a,
                                        const typename A::Start& start, const WgmmaPlace& place,
                                        const WgmmaTileMemory<Tile>& memory) const {
    T* const to = out + place.split * stride;
    if constexpr (kTakesStages) {
      store_pixels<Tile>(d, a, start, place.column * Tile::kN, to, memory);
    } else {
      store_channels<Tile>(d, a, start, place.column * Tile::kN, to);
    }
  }

 private:
  template <class Tile, class A>
  __device__ __forceinline__ void store_pixels(const float (&d)[Tile::kN / 2], const A& a,
                                               const typename A::Start& start, int n0, T* to,
                                               const WgmmaTileMemory<Tile>& memory) const {
    const int tid = threadIdx.x;
    if (tid < Tile::kM) {
      int image, pixel;
      const bool inside = a.locate(start, tid, image, pixel);
      memory.row_at[tid] = inside ? image * columns * pixels + pixel : -1;
    }
    const float* const tile = columns_to_shared<Tile>(d, memory);
    const int row = tid % Tile::kM, at = memory.row_at[row];
    if (at < 0) return;
    const int count = min(Tile::kN, columns - n0);
#pragma unroll 4
    for (int column = tid / Tile::kM; column < count; column += Tile::kMultipliers / Tile::kM)
      to[at + (n0 + column) * pixels] =
          T(Function()(tile[column * WgmmaTileMemory<Tile>::kPixelPitch + row]));
  }

  template <class Tile, class A>
  __device__ __forceinline__ void store_channels(const float (&d)[Tile::kN / 2], const A& a,
                                                 const typename A::Start& start, int n0,
                                                 T* to) const {
    constexpr int kGathered = 4 * kWidest<T>;  // columns
    const bool whole = columns % kWidest<T> == 0;
    // This lane's first column, and how many there are from it on: what follows lies at constant distances.
    const int first = whole ? gathered_column<T>() : int(threadIdx.x) % 4 * 2;
    T* row[2];
    int count[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      int image, pixel;
      const bool inside = a.locate(start, my_row(i), image, pixel);
      row[i] = to + (inside ? (image * pixels + pixel) * columns + n0 + first : 0);
      count[i] = inside ? columns - n0 - first : 0;
    }
    if (!whole) {
#pragma unroll
      for (int k = 0; k < Tile::kN / 2; ++k) {
        const int i = k / 2 % 2, column = k / 4 * 8 + k % 2;
        if (column < count[i]) row[i][column] = T(Function()(d[k]));
      }
      return;
    }
#pragma unroll
    for (int column = 0; column < Tile::kN; column += kGathered) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        T mine[kWidest<T>];
#pragma unroll
        for (int e = 0; e < kWidest<T>; ++e)
          mine[e] = T(Function()(d[column / 2 + e / 2 * 4 + 2 * i + e % 2]));
        uint32_t word[4];
        memcpy(word, mine, sizeof word);
        gather_row<T>(word);
        if (column < count[i])
          *reinterpret_cast<uint4*>(row[i] + column) = {word[0], word[1], word[2], word[3]};
      }
    }
  }
};

#if DUET_HAS_WGMMA
/// The sums of `count` steps, and with kSums of A's rows, of a warpgroup of number `group`.
template <class Tile, class A, class B, bool kSums, class Smem>
__device__ __forceinline__ void multiply_steps(Smem& smem, WgmmaRing<Tile>& ring, int group,
                                               int count, float (&d)[Tile::kN / 2],
                                               float (&row_sums)[4]) {
  using T = typename A::Element;
  int last = 0;
  for (int i = 0; i < count; ++i) {
    smem.full[ring.stage].wait(ring.phase);
    if constexpr (kIsTurnedFloat<B>) smem.split[ring.stage].wait(ring.phase);
    const char* const rows_a = smem.stage[ring.stage].a + group * kPanel * kRowBytes;
    const char* const rows_b = smem.stage[ring.stage].b;
    constexpr int kTerms = 32;  // bytes of an instruction's
    constexpr bool kTurnedB = B::kTurned && !kIsTurnedFloat<B>;
    constexpr int kNextA = A::kTurned ? 16 * kRowBytes : kTerms;
    constexpr int kNextB = kTurnedB ? 16 * kRowBytes : kTerms;
    wgmma_begin();
    // region multiply
#pragma unroll
    for (int k = 0; k < kRowBytes / kTerms; ++k) {
      constexpr int kBlock = kPanel * kRowBytes;
      Wgmma<T, Tile::kN, A::kTurned, kTurnedB>::multiply(
          d, matrix_descriptor(rows_a + k * kNextA, kBlock),
          matrix_descriptor(rows_b + k * kNextB, kBlock), i > 0 || k > 0);
    }
    // end multiply
    if constexpr (kSums) {
#pragma unroll
      for (int k = 0; k < kRowBytes / kTerms; ++k)
        Wgmma<T, 8, A::kTurned, false>::multiply(row_sums,
                                                 matrix_descriptor(rows_a + k * kNextA, 0),
                                                 matrix_descriptor(smem.ones, 0), i > 0 || k > 0);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the step before has read its stage
    if (i > 0) smem.release(last);
    last = ring.stage;
    ring.advance();
  }
  wgmma_wait<0>();
  smem.release(last);
  wgmma_settle(d);
  if constexpr (kSums) wgmma_settle(row_sums);
}
#endif

/// An A whose tiles differ in steps, and in the bytes that one brings.
template <class A>
concept HasUnequalTiles = requires(const A& a) {
  a.steps(0, 0);
};
template <class A>
__device__ __forceinline__ WgmmaSteps steps_of(const A& a, const WgmmaPlace& place, int steps,
                                               int steps_per_split) {
  if constexpr (HasUnequalTiles<A>) {
    return a.steps(place.row, place.split);
  } else {
    const int first = place.split * steps_per_split;
    return {first, min(steps, first + steps_per_split) - first};
  }
}
template <int kRows, class A>
__device__ __forceinline__ uint32_t bytes_of(const A& a, const typename A::Start& start) {
  if constexpr (HasUnequalTiles<A>) {
    return a.template bytes<kRows>(start);
  } else {
    return a.template bytes<kRows>();
  }
}

// Blocks take tiles by turns.
template <class Tile, class A, class B, class Result>
__global__ void __launch_bounds__(kWgmmaThreads<Tile, B>, Tile::kBlocks)
    wgmma_product_kernel(const __grid_constant__ A a, const __grid_constant__ B b,
                         const WgmmaTiles tiles, int steps, int steps_per_split,
                         const __grid_constant__ Result result) {
#if DUET_HAS_WGMMA
  using T = typename A::Element;
  static_assert(std::is_same_v<T, typename B::Element>);
  using Smem = WgmmaSmem<Tile, T>;
  constexpr int kStages = Tile::kStages, kHelpers = kWgmmaHelpers<Tile, B>;
  constexpr int kThreads = kWgmmaThreads<Tile, B>;
  extern __shared__ char dynamic[];
  // By an offset, which leaves the compiler to know that this is shared memory.
  Smem& smem = *reinterpret_cast<Smem*>(
      dynamic + (-static_cast<int>(__cvta_generic_to_shared(dynamic)) & 1023));
  const int tid = threadIdx.x, group = tid / 128;
  /// Calls visit(place, first step, steps) for this block's tiles.
  const auto for_tiles = [&](auto visit) {
    for (int i = blockIdx.x; i < tiles.count(); i += gridDim.x) {
      const WgmmaPlace place = tiles.place<Tile>(i);
      const WgmmaSteps of_tile = steps_of(a, place, steps, steps_per_split);
      visit(place, of_tile.first, of_tile.count);
    }
  };
  if (tid < kStages) {
    smem.full[tid].init();
    smem.empty[tid].init(2);
    if (kHelpers > 0) smem.split[tid].init(kIsTurnedFloat<B> ? Tile::kN / 32 : kHelpers);
  }
  // Terms beyond the boxes are zeros on both sides.
  if constexpr (A::kTurned) {
    const int rows = kStepDepth<T> - a.unwritten();
    constexpr int kBlock = kStepDepth<T>, kPieces = kRowBytes / 16;
    constexpr int kBlocksA = Tile::kM / kBlock, kBlocks = kBlocksA + Tile::kN / kBlock;
    for (int i = tid; i < kStages * kBlocks * rows * kPieces; i += kThreads) {
      const int piece = i % kPieces, rest = i / kPieces, row = rest % rows;
      const int block = rest / rows % kBlocks, stage = rest / rows / kBlocks;
      char* const at = block < kBlocksA
                           ? smem.stage[stage].a + block * kBlock * kRowBytes
                           : smem.stage[stage].b + (block - kBlocksA) * kBlock * kRowBytes;
      *reinterpret_cast<float4*>(at + (a.unwritten() + row) * kRowBytes + piece * 16) = {};
    }
  }
  if constexpr (A::kSums)
    for (int i = tid; i < 8 * kStepDepth<T>; i += kThreads) smem.ones[i] = T(1.f);
  if constexpr (A::kTurned || A::kSums) fence_async_proxy();
  __syncthreads();
  WgmmaRing<Tile> ring;
  if (group == 2) {
    if constexpr (Tile::kSplit) give_registers();
    if constexpr (kHelpers > 0) {
      const int helper = tid - Tile::kMultipliers - 32;
      if constexpr (kIsTurnedFloat<B>) {
        if (helper >= 0) {
          int square = helper / 32, steps_there = 0;
          for_tiles([&](const WgmmaPlace&, int, int count) {
            steps_there += count;
            turn_squares<Tile, kHelpers / 32, A::kTurned>(smem, square, steps_there, b.unwritten());
          });
        }
      } else if (helper >= 0) {
        for_tiles([&](const WgmmaPlace&, int, int count) {
          write_rests<Tile, kHelpers>(smem, ring, count, helper);
        });
      }
    }
    if (tid == Tile::kMultipliers) {
      wait_for_primary();
      for_tiles([&](const WgmmaPlace& place, int first, int count) {
        const auto start_a = a.template start<Tile::kM>(place.row);
        const auto start_b = b.template start<Tile::kN>(place.column);
        const uint32_t bytes = bytes_of<Tile::kM>(a, start_a) + b.template bytes<Tile::kN>();
        // region copies
        for (int i = 0; i < count; ++i) {
          smem.empty[ring.stage].wait(ring.phase ^ 1);
          CopyBarrier& full = smem.full[ring.stage];
          full.expect(bytes);
          auto& to = smem.stage[ring.stage];
          a.template copy<Tile::kM>(start_a, first + i, to.a, full);
          b.template copy<Tile::kN>(start_b, first + i, to.b, full);
          ring.advance();
        }
        // end copies
      });
      let_secondary_start();
    }
  } else {
    if constexpr (Tile::kSplit) take_registers();
    wait_for_primary();
    for_tiles([&](const WgmmaPlace& place, int, int count) {
      const bool sums = A::kSums && result.row_sums != nullptr && place.column == 0;
      float d[Tile::kN / 2], row_sums[4];
      // A gradient of weights has none: with two loops `wgmma` would have to wait for what might add to its sums.
      const TileBias<Tile> bias(A::kSums ? nullptr : result.bias, place.column * Tile::kN,
                                result.columns);
      if constexpr (Tile::kSplit) {
        multiply_split_steps<Tile, A>(smem, ring, group, count, d, row_sums);
      } else if constexpr (kIsTurnedFloat<A>) {
        multiply_turned_steps(smem, ring, group, count, d, row_sums);
      } else if (A::kSums && sums) {
        multiply_steps<Tile, A, B, A::kSums>(smem, ring, group, count, d, row_sums);
      } else {
        multiply_steps<Tile, A, B, false>(smem, ring, group, count, d, row_sums);
      }
      const auto start = a.template start<Tile::kM>(place.row);
      if (A::kSums && sums && tid % 4 == 0) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          int image, row;
          if (a.locate(start, my_row(i), image, row))
            result.row_sums[place.split * result.stride + row] = row_sums[2 * i];
        }
      }
      if constexpr (!A::kSums) bias.add_to(d);
      if constexpr (Result::kTakesStages) {
        static_assert(sizeof(smem.stage) >= WgmmaTileMemory<Tile>::kBytes);
        wait_multipliers<Tile>();  // nobody reads the stages any more
      }
      result.template store<Tile>(
          d, a, start, place,
          WgmmaTileMemory<Tile>{reinterpret_cast<char*>(smem.stage), smem.row_at});
    });
  }
#else
  __trap();
#endif
}

/// So many tiles of 128 rows, of so many steps each.
struct RowTiles {
  int count, steps;
};

/// Which operands are turned, and of float.
struct TurnedFloats {
  bool a = false, b = false;
};

/// How a product of `row_tiles` tiles of 128 rows is computed: columns of a tile, and splits of its
/// sum, which leave partial results in the workspace. kSplit: in 3xTF32.
template <bool kSplit = false>
struct WgmmaPlan {
  int row_tiles = 1, columns = 1, steps = 1, multiprocessors = 1;
  TurnedFloats turned;
  int tile_columns = 128, splits = 1, steps_per_split = 1;
  double cycles = 0;  // an estimate

  WgmmaPlan() = default;
  /// A split leaves `results` floats in the workspace, which may take `limit` bytes.
  WgmmaPlan(int row_tiles_, int columns_, int steps_, int64_t results, size_t limit,
            int multiprocessors_, TurnedFloats turned_ = {})
      : WgmmaPlan(std::vector{RowTiles{row_tiles_, steps_}}, columns_, results, limit,
                  multiprocessors_, turned_) {}
  /// Of several products at once, those with most steps first.
  WgmmaPlan(const std::vector<RowTiles>& products, int columns_, int64_t results, size_t limit,
            int multiprocessors_, TurnedFloats turned_ = {})
      : row_tiles(0),
        columns(columns_),
        steps(products.front().steps),
        multiprocessors(multiprocessors_),
        turned(turned_) {
    for (const RowTiles& rows : products) row_tiles += rows.count;
    // Estimates in cycles of an H200's multiprocessor: a step takes four a column, which is not fitted to
    // measurements, or as measured where it is split; a block 4000 besides, and a second kernel 3000 and its memory traffic.
    // Where B is turned they are what shared memory moves.
    const bool turns = turned.b && !kSplit;
    const double kStep = kSplit ? 510 : turns ? 256 : 60, kColumn = kSplit ? 10.6 : turns ? 5 : 4;
    double best = 1e300;
    for (const int tile : {256, 128, 64}) {
      // Its sums beside values of A take more registers than there are.
      if ((kSplit || turned.a) && tile == 256) continue;
      for (int wanted = 1; wanted <= std::min(steps, 64); ++wanted) {
        const int per_split = ceil_div(steps, wanted), used = ceil_div(steps, per_split);
        if (used != wanted) continue;
        if (used > 1 && double(used) * results * sizeof(float) > double(limit)) break;
        double cost = 0;
        int64_t tiles = 0, waves = 0;  // of the products so far
        for (const RowTiles& rows : products) {
          tiles += int64_t{rows.count} * ceil_div(columns, tile) * used;
          const int64_t before = waves;
          waves = (tiles + multiprocessors - 1) / multiprocessors;
          cost += double(waves - before) *
                  (ceil_div(rows.steps, used) * (kStep + kColumn * tile) + 4000 + 8 * tile);
        }
        if (used > 1) cost += 3000 + 8. * used * results / 2000;
        if (cost >= best) continue;
        best = cycles = cost;
        tile_columns = tile, splits = used, steps_per_split = per_split;
      }
    }
  }
  /// An estimate, with that many bytes of operands staged before by another kernel.
  double microseconds(size_t staged) const {
    constexpr double kCyclesPerUs = 1755, kBytesPerUs = 3e6, kLaunchUs = 3;
    return cycles / kCyclesPerUs + (staged > 0 ? kLaunchUs + 2. * double(staged) / kBytesPerUs : 0);
  }
  /// For operands of T.
  template <class T>
  std::string text() const {
    return "tile 128x" + std::to_string(tile_columns) +
           (splits == 1 ? "" : ", " + std::to_string(splits) + " splits") +
           (kSplit                     ? ", wgmma 3xtf32"
            : std::is_same_v<T, float> ? ", wgmma tf32"
                                       : ", wgmma bf16");
  }
  /// Calls visit(tile). kTurned is what `turned` is.
  template <TurnedFloats kTurned = TurnedFloats{}, class Visit>
  void with_tile(Visit visit) const {
    if constexpr (kSplit) {
      tile_columns == 64 ? visit(WgmmaTile<64, 6, 1, true>{}) : visit(WgmmaTile<128, 4, 1, true>{});
    } else if constexpr (kTurned.b) {
      if constexpr (!kTurned.a) {
        if (tile_columns == 256) return visit(WgmmaTile<256, 4, 1>{});
      }
      tile_columns == 64 ? visit(WgmmaTile<64, 9, 1>{}) : visit(WgmmaTile<128, 6, 1>{});
    } else {
      // Two blocks at once hide each other's beginning and end, one has more stages.
      const bool several = row_tiles * ceil_div(columns, tile_columns) * splits > multiprocessors;
      if (tile_columns == 256) return visit(WgmmaTile<256, 4, 1>{});
      if (tile_columns == 64) return visit(WgmmaTile<64, 4, 2>{});
      several ? visit(WgmmaTile<128, 3, 2>{}) : visit(WgmmaTile<128, 6, 1>{});
    }
  }
};

template <class Tile, class A, class B, class Result>
void launch_wgmma_product(const WgmmaPlan<Tile::kSplit>& plan, const A& a, const B& b,
                          const Result& result, cudaStream_t stream) {
  const auto kernel = wgmma_product_kernel<Tile, A, B, Result>;
  constexpr int kBytes =
      sizeof(WgmmaSmem<Tile, typename A::Element>) + 1024;  // to begin at a multiple of 1024
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  const WgmmaTiles tiles{plan.row_tiles, ceil_div(plan.columns, Tile::kN), plan.splits};
  cudaLaunchConfig_t config{.gridDim = dim3(tiles.count()),
                            .blockDim = dim3(kWgmmaThreads<Tile, B>),
                            .dynamicSmemBytes = kBytes,
                            .stream = stream};
  // A block of a result in the operands' memory has one tile.
  if (!Result::kTakesStages) {
    config.gridDim.x = std::min<int>(config.gridDim.x, Tile::kBlocks * plan.multiprocessors);
  }
  launch(config, {overlaps_primary()}, kernel, a, b, tiles, plan.steps, plan.steps_per_split,
         result);
}

/// Why this GPU, or this build for it, has no wgmma; nothing where there is no GPU to ask.
inline std::optional<std::string> wgmma_unsupported() {
  if (!gpu_available()) return {};
  if (gpu_attribute(cudaDevAttrComputeCapabilityMajor) == 9 && DUET_WGMMA_BUILT) return {};
  return "multiplies by wgmma, which takes a GPU of compute capability 9.0 and a build for it";
}

}  // namespace duet
