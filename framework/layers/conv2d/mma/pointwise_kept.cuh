// Forward and backward_data of pointwise_product.cuh where tiles are enough for the GPU: the weights of a block's rows
// stay in shared memory, as operands, while columns of images go by.
//
// A block is up to four teams of four warps. Each takes tiles of 64 or 32 columns of its own by turns, brings their slices
// through a ring of its own, and waits for nobody else. Results leave from registers: terms of 32 bits are read by pairs of
// columns, so that a thread's sums are four neighbours; of bfloat16 four lanes exchange theirs.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "device/likely_multiprocessors.h"
#include "kernels/load_if.cuh"
#include "kernels/mma_tile.cuh"
#include "kernels/products.cuh"
#include "kernels/tf32.cuh"
#include "layers/conv2d/mma/conv2d_plane_product.cuh"

namespace duet {

/// B of [k][column] slices by pairs of columns: part j of 16 columns has columns 2i + j for its i.
template <class Mma>
struct ByColumnPairs : Mma {
  template <bool row_lanes, int pitch>
  __device__ __forceinline__ static void load_b(uint32_t (&b)[4], const uint32_t* slice, int col,
                                                int k) {
    static_assert(row_lanes);
    const int lane = threadIdx.x % 32;
    const uint32_t* const at = slice + (k + lane % 4) * pitch + col + lane / 4 * 2;
    const uint2 first = *reinterpret_cast<const uint2*>(at);
    const uint2 second = *reinterpret_cast<const uint2*>(at + 4 * pitch);
    b[0] = first.x, b[1] = second.x, b[2] = first.y, b[3] = second.y;
    if constexpr (!Mma::kInParts) StoredMmaTf32::round(b);
  }
};

/// TF32 whose first operand is rounded on its way to shared memory.
struct KeptMmaTf32 : MmaTf32 {
  __device__ __forceinline__ static uint32_t operand(float value) {
    return __float_as_uint(tf32_rounded(value));
  }
};

inline constexpr int kTeamThreads = 128, kMostTeams = 4, kKeptDepth = 32, kKeptStages = 4;

/// A team's tile, of 64 or 32 columns.
template <class Mma, int columns = 64>
using KeptTile = MmaTile<Mma, 64, columns, 2, 2, kKeptStages, 1, kKeptDepth>;

/// A slice of weights, rows side by side (kTurned) or terms, and one of images.
template <class Tile, bool kTurned>
using KeptSlice = typename Tile::template Slice<Tile::kM, kTurned, float>;
template <class Tile, class T>
using ColumnSlice = typename Tile::template Slice<Tile::kN, true, T>;
template <class Slice>
constexpr int kSliceBytes = Slice::kElements* int(sizeof(typename Slice::Element));

/// Four lanes have a word of each of four parts; each lane gets all words of one part.
__device__ __forceinline__ void exchange_parts(uint32_t (&words)[4]) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = (threadIdx.x & step) != 0;
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
      const int low = step == 1 ? 2 * pair : pair, high = low + step;
      const uint32_t got = __shfl_xor_sync(~0u, upper ? words[low] : words[high], step);
      words[low] = upper ? got : words[low];
      words[high] = upper ? words[high] : got;
    }
  }
}

// blockIdx.x is where a block begins among tiles of columns, y a tile of rows; threadIdx.y is a team. Of kMostTeams, which all
// bring weights, `teams` have tiles.
template <class Tile, bool kTurned, int vec, class T>
__global__ void __launch_bounds__(kMostTeams* kTeamThreads, 1)
    pointwise_kept_kernel(const float* weights, const T* images,
                          const __grid_constant__ PlaneProduct<T> to, int teams) {
  using SliceA = KeptSlice<Tile, kTurned>;
  using SliceB = ColumnSlice<Tile, T>;
  constexpr int kUnits = Tile::kN / vec, kRowsAtOnce = kTeamThreads / kUnits;
  constexpr int kCount = Tile::kK / kRowsAtOnce;
  constexpr bool kHalf = sizeof(T) == 2;
  constexpr int kRun = kHalf ? 8 : 4, kRuns = Tile::kThreadN / kRun, kChunk = std::min(vec, kRun);
  const int slices = (to.k + Tile::kK - 1) / Tile::kK, m0 = blockIdx.y * Tile::kM;
  unsigned char* const memory = &product_smem<unsigned char>();
  auto* const kept = reinterpret_cast<typename SliceA::Element*>(memory);
  auto* const ring = reinterpret_cast<typename SliceB::Element*>(
      memory + slices * kSliceBytes<SliceA> + threadIdx.y * kKeptStages * kSliceBytes<SliceB>);

  // Copies of images, a few steps ahead.
  const int step = gridDim.x * teams, first = threadIdx.y * gridDim.x + blockIdx.x;
  const int tiles = int(threadIdx.y) < teams ? (to.n + Tile::kN - 1) / Tile::kN : 0;
  const int column = threadIdx.x % kUnits * vec, row = threadIdx.x / kUnits;
  const auto base_of = [&](int tile) {
    const int position = tile * Tile::kN + column;
    if (position >= to.n) return -1;
    int image, pixel;
    to.by_pixels.divmod(position, image, pixel);
    return image * to.k * to.pixels + pixel;
  };
  int copied_tile = first, copied_slice = 0, copied_stage = 0, base = base_of(first);
  const auto copy = [&] {
    if (copied_tile < tiles) {
      auto* const slice = ring + copied_stage * SliceB::kElements;
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const int k = row + j * kRowsAtOnce, all = copied_slice * Tile::kK + k;
        const bool inside = base >= 0 && all < to.k;
        copy_or_zeros<vec * sizeof(T)>(SliceB::at(slice, column, k),
                                       images + (inside ? base + all * to.pixels : 0), inside);
      }
      if (++copied_slice == slices) {
        copied_slice = 0, copied_tile += step;
        base = base_of(copied_tile);
      }
    }
    copied_stage = copied_stage + 1 == kKeptStages ? 0 : copied_stage + 1;
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  wait_for_primary();
#pragma unroll
  for (int i = 0; i < kKeptStages - 1; ++i) copy();

  // Four weights at a time, and many on their way at once: in memory rows (kTurned) or terms are neighbours.
  constexpr int kThreads = kMostTeams * kTeamThreads, kQuads = Tile::kM * Tile::kK / 4;
  constexpr int kAtOnce = 8;
  const int thread = threadIdx.y * kTeamThreads + threadIdx.x;
  for (int first_quad = thread; first_quad < slices * kQuads; first_quad += kAtOnce * kThreads) {
    Vector<float, 4> values[kAtOnce];
    const auto place = [&](int i, int& slice, int& m, int& k) {
      const int quad = first_quad + i * kThreads, in_slice = quad % kQuads;
      slice = quad / kQuads;
      m = kTurned ? in_slice % (Tile::kM / 4) * 4 : in_slice / (Tile::kK / 4);
      k = kTurned ? in_slice / (Tile::kM / 4) : in_slice % (Tile::kK / 4) * 4;
    };
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      int slice, m, k;
      place(i, slice, m, k);
      const int row = m0 + m, term = slice * Tile::kK + k;
      values[i] = {};
      if (row < to.m && term < to.k)
        values[i] = load<4>(weights + (kTurned ? term * to.m + row : row * to.k + term));
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      int slice, m, k;
      place(i, slice, m, k);
      if (slice < slices) SliceA::put(kept + slice * SliceA::kElements, m, k, values[i]);
    }
  }
  float shift[Tile::kThreadM];
#pragma unroll
  for (int i = 0; i < Tile::kThreadM; ++i) {
    const int m = m0 + Tile::row(i);
    shift[i] = to.bias != nullptr && m < to.m ? to.bias[m] : 0.f;
  }
  __syncthreads();

  int now = 0;
  for (int tile = first; tile < tiles; tile += step) {
    float acc[Tile::kThreadM][Tile::kThreadN] = {};
    for (int s = 0; s < slices; ++s) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kKeptStages - 2) : "memory");
      asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.y + 1), "n"(kTeamThreads) : "memory");
      copy();
      Tile::template multiply<kTurned, true>(kept + s * SliceA::kElements,
                                             ring + now * SliceB::kElements, acc);
      now = now + 1 == kKeptStages ? 0 : now + 1;
    }
    const int lane = threadIdx.x % 32;
    const int n0 = tile * Tile::kN + threadIdx.x / 32 % 2 * Tile::kWarpN;
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      int at[kRun / kChunk];  // where chunks lie in row 0, or -1
#pragma unroll
      for (int c = 0; c < kRun / kChunk; ++c) {
        const int n = n0 + run * 16 + lane % 4 * kRun + c * kChunk;
        int image, pixel;
        to.by_pixels.divmod(n, image, pixel);
        at[c] = n < to.n ? image * to.m * to.pixels + pixel : -1;
      }
#pragma unroll
      for (int i = 0; i < Tile::kThreadM; ++i) {
        Vector<T, kRun> values;
        const float* const sums = acc[i];
        if constexpr (kHalf) {
          uint32_t words[4];
#pragma unroll
          for (int j = 0; j < 4; ++j)
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
                : "=r"(words[j])
                : "f"(sums[2 * j + 1] + shift[i]), "f"(sums[2 * j] + shift[i]));
          exchange_parts(words);
          memcpy(&values, words, sizeof words);
        } else {
          values = {{sums[4 * run] + shift[i], sums[4 * run + 2] + shift[i],
                     sums[4 * run + 1] + shift[i], sums[4 * run + 3] + shift[i]}};
        }
        const int m = m0 + Tile::row(i);
        if (m >= to.m) continue;
#pragma unroll
        for (int c = 0; c < kRun / kChunk; ++c) {
          Vector<T, kChunk> chunk;
          memcpy(&chunk, values.v + c * kChunk, sizeof chunk);
          if (at[c] >= 0) Packed<T, kChunk>(chunk).store(to.c + at[c] + m * to.pixels);
        }
      }
    }
  }
}

/// How such a product is computed: blocks of a tile of rows, and teams of a block that have tiles of columns.
struct KeptPlan {
  int blocks = 1, teams = 1;
  bool narrow = false;  // tiles of 32 columns

  std::string text(const char* mma) const {
    return std::string(narrow ? "tile 64x32" : "tile 64x64") + mma + ", weights kept, " +
           std::to_string(blocks) + "x" + std::to_string(teams) + " teams";
  }
};

/// For `rows` x `columns` sums of `depth` terms; nothing where shared memory does not keep the weights.
template <class Tile, bool kTurned, class T>
std::optional<KeptPlan> kept_plan(int rows, int columns, int depth) {
  constexpr int kMemory = 227 * 1024;
  const int left = kMemory - ceil_div(depth, Tile::kK) * kSliceBytes<KeptSlice<Tile, kTurned>>;
  const int fitting = left / (kKeptStages * kSliceBytes<ColumnSlice<Tile, T>>);
  if (fitting < 1) return {};
  const int tiles = ceil_div(columns, Tile::kN);
  KeptPlan plan{.narrow = Tile::kN == 32};
  plan.blocks = std::clamp(likely_multiprocessor_count() / ceil_div(rows, Tile::kM), 1, tiles);
  plan.teams = std::min({ceil_div(tiles, plan.blocks), fitting, kMostTeams});
  return plan;
}

/// REQUIRES: a plan by kept_plan() of the same types.
template <class Tile, bool kTurned, int vec, class T>
void launch_kept(const KeptPlan& plan, const float* weights, const T* images,
                 const PlaneProduct<T>& to, cudaStream_t stream) {
  const auto kernel = pointwise_kept_kernel<Tile, kTurned, vec, T>;
  const int bytes = ceil_div(to.k, Tile::kK) * kSliceBytes<KeptSlice<Tile, kTurned>> +
                    plan.teams * kKeptStages * kSliceBytes<ColumnSlice<Tile, T>>;
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  launch_following({dim3(plan.blocks, ceil_div(to.m, Tile::kM)), dim3(kTeamThreads, kMostTeams),
                    size_t(bytes), stream},
                   kernel, weights, images, to, plan.teams);
}

}  // namespace duet
