// A product of bfloat16 by Hopper's wgmma: out[row][column] = sum of A(row, k) * B(column, k), operands
// brought by the copy engine (wgmma_operands.cuh).
//
// Mapping: block = 128 rows x kN columns. Of its three warpgroups two multiply, 64 rows x kN each, with
// all sums in registers; one thread of the third starts copies, kStages steps of 64 terms ahead. A
// stage passes to and fro by two barriers: `full`, when the copies have come, and `empty`, when both
// warpgroups have read it. Registers move from the third warpgroup to the others (setmaxnreg).
// Two more of its warps add up A's rows where somebody wants that (a bias' gradient).
// Traffic: A is read once a column of tiles, B once a row of them, by 128 bytes, mostly from L2.
#pragma once

#include <algorithm>
#include <optional>
#include <string>

#include "core/tensor.h"
#include "device/launch.h"
#include "kernels/split_reduction.cuh"
#include "kernels/vector.cuh"
#include "kernels/wgmma.cuh"
#include "kernels/wgmma_operands.cuh"

namespace duet {

template <int columns, int stages>
struct WgmmaTile {
  static constexpr int kM = 128, kN = columns, kStages = stages;
  static constexpr int kMultipliers = 256, kThreads = 384;
};

template <class Tile>
struct WgmmaSmem {
  struct Stage {
    alignas(1024) char a[Tile::kM * kRowBytes];
    alignas(1024) char b[Tile::kN * kRowBytes];
  };
  Stage stage[Tile::kStages];
  CopyBarrier full[Tile::kStages], empty[Tile::kStages];
  int row_at[Tile::kM];
  // After the product the stages' memory holds the tile, for 16-byte stores.
  static constexpr int kPadding = 16;
  template <class T>
  static constexpr int kPitch = Tile::kN + kPadding / int(sizeof(T));  // row-major
  static constexpr int kPixelPitch = Tile::kM + 4;                     // of columns
  static_assert(sizeof(Stage) * Tile::kStages >= sizeof(float) * Tile::kM * kPitch<float>);
  static_assert(sizeof(Stage) * Tile::kStages >= sizeof(float) * Tile::kN * kPixelPitch);
};

// Threads of the two multiplying warpgroups, and others that only arrive.
__device__ __forceinline__ void wait_multipliers(int threads) {
  asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/// Calls write(row, column, pair) with the sums d (wgmma.cuh) of this thread, + bias of `columns`, or
/// nullptr: two neighbouring columns at a time, in numbers of the tile.
template <class Tile, class Write>
__device__ __forceinline__ void for_pairs(const float (&d)[Tile::kN / 2], const float* bias,
                                          int columns, Write write) {
  const int tid = threadIdx.x, row = tid / 32 * 16 + tid % 32 / 4, column0 = tid % 4 * 2;
  const int n0 = blockIdx.y * Tile::kN;
#pragma unroll
  for (int j = 0; j < Tile::kN / 8; ++j) {
    const int column = 8 * j + column0;
    float b[2] = {};
    if (bias != nullptr)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (n0 + column + e < columns) b[e] = __ldg(bias + n0 + column + e);
#pragma unroll
    for (int i = 0; i < 2; ++i)
      write(row + 8 * i, column,
            Vector<float, 2>{{d[4 * j + 2 * i] + b[0], d[4 * j + 2 * i + 1] + b[1]}});
  }
}

/// The sums as float [column][row], rows WgmmaSmem::kPixelPitch long, in the stages' memory; and all
/// multiplying threads see them.
template <class Tile>
__device__ __forceinline__ const float* columns_to_shared(const float (&d)[Tile::kN / 2],
                                                          const float* bias, int columns,
                                                          WgmmaSmem<Tile>& smem) {
  auto* const tile = reinterpret_cast<float*>(smem.stage);
  for_pairs<Tile>(d, bias, columns, [&](int row, int column, const Vector<float, 2>& pair) {
#pragma unroll
    for (int e = 0; e < 2; ++e) tile[(column + e) * WgmmaSmem<Tile>::kPixelPitch + row] = pair.v[e];
  });
  wait_multipliers(Tile::kMultipliers);
  return tile;
}

/// Where a product goes: images of `columns` channels and `pixels` in kLayout, + bias (or nullptr);
/// a matrix is one NHWC image of as many pixels as it has rows. Split s of the sum writes to
/// out + s * stride, and A's row sums, if wanted, to row_sums + s * stride.
///
/// Any result has stride and row_sums, and store() by the multiplying threads when nobody reads the
/// stages any more.
template <Layout kLayout, class T>
struct WgmmaResult {
  T* out;
  const float* bias;
  int columns, pixels;
  size_t stride = 0;
  float* row_sums = nullptr;

  template <class Tile, class A>
  __device__ __forceinline__ void store(const float (&d)[Tile::kN / 2], const A& a,
                                        const typename A::Start& start,
                                        WgmmaSmem<Tile>& smem) const {
    constexpr bool kPixels = kLayout == Layout::kNCHW;
    const int tid = threadIdx.x, n0 = blockIdx.y * Tile::kN;
    T* const to = out + blockIdx.z * stride;
    if (tid < Tile::kM) {
      int image, pixel;
      const bool inside = a.locate(start, tid, image, pixel);
      smem.row_at[tid] = !inside   ? -1
                         : kPixels ? image * columns * pixels + pixel
                                   : (image * pixels + pixel) * columns;
    }
    if constexpr (kPixels) {
      const float* const tile = columns_to_shared<Tile>(d, bias, columns, smem);
      const int row = tid % Tile::kM, at = smem.row_at[row];
      if (at < 0) return;
      const int count = min(Tile::kN, columns - n0);
#pragma unroll 4
      for (int column = tid / Tile::kM; column < count; column += Tile::kMultipliers / Tile::kM)
        to[at + (n0 + column) * pixels] = T(tile[column * WgmmaSmem<Tile>::kPixelPitch + row]);
    } else {
      auto* const tile = reinterpret_cast<T*>(smem.stage);
      constexpr int kPitch = WgmmaSmem<Tile>::template kPitch<T>;
      for_pairs<Tile>(d, bias, columns, [&](int row, int column, const Vector<float, 2>& pair) {
        duet::store(tile + row * kPitch + column, pair);
      });
      wait_multipliers(Tile::kMultipliers);
      constexpr int kVec = kWidest<T>, kLanes = Tile::kN / kVec;
      const bool whole = columns % kVec == 0;
      const int column = tid % kLanes * kVec, n = n0 + column;
      if (n >= columns) return;
#pragma unroll 4
      for (int row = tid / kLanes; row < Tile::kM; row += Tile::kMultipliers / kLanes) {
        const int at = smem.row_at[row];
        if (at < 0) continue;
        const T* from = tile + row * kPitch + column;
        if (whole) {
          *reinterpret_cast<float4*>(to + at + n) = *reinterpret_cast<const float4*>(from);
        } else {
#pragma unroll
          for (int e = 0; e < kVec; ++e)
            if (n + e < columns) to[at + n + e] = from[e];
        }
      }
    }
  }
};

// blockIdx.x is a tile of A's rows, y one of B's, z a split of the steps.
template <class Tile, class A, class B, class Result>
__global__ void __launch_bounds__(Tile::kThreads, 1)
    wgmma_product_kernel(const __grid_constant__ A a, const __grid_constant__ B b, int steps,
                         int steps_per_split, const __grid_constant__ Result result) {
#if DUET_HAS_WGMMA
  using Smem = WgmmaSmem<Tile>;
  constexpr int kStages = Tile::kStages, kSumWarps = 2;
  extern __shared__ char dynamic[];
  Smem& smem = *reinterpret_cast<Smem*>((uintptr_t(dynamic) + 1023) & ~uintptr_t{1023});
  const int tid = threadIdx.x, group = tid / 128;
  const int first = blockIdx.z * steps_per_split;
  const int count = min(steps, first + steps_per_split) - first;
  const bool sums = A::kTurned && result.row_sums != nullptr && blockIdx.y == 0;
  // At the end: both multiplying warpgroups, and the warps that add up rows.
  const int readers = Tile::kMultipliers + (sums ? 32 * kSumWarps : 0);
  if (tid == 0) {
    for (int i = 0; i < kStages; ++i) {
      smem.full[i].init();
      smem.empty[i].init(2 + (sums ? kSumWarps : 0));
    }
  }
  // Terms beyond the boxes are zeros on both sides.
  if constexpr (A::kTurned) {
    const int rows = kStepDepth - a.unwritten();
    constexpr int kBlocks = (Tile::kM + Tile::kN) / kStepDepth, kPieces = kRowBytes / 16;
    for (int i = tid; i < kStages * kBlocks * rows * kPieces; i += Tile::kThreads) {
      const int piece = i % kPieces, rest = i / kPieces, row = rest % rows;
      const int block = rest / rows % kBlocks, stage = rest / rows / kBlocks;
      char* const at =
          block < Tile::kM / kStepDepth
              ? smem.stage[stage].a + block * kStepDepth * kRowBytes
              : smem.stage[stage].b + (block - Tile::kM / kStepDepth) * kStepDepth * kRowBytes;
      *reinterpret_cast<float4*>(at + (a.unwritten() + row) * kRowBytes + piece * 16) = {};
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
  if (group == 2) {
    leave_registers<40>();
    const int warp = tid / 32 - Tile::kMultipliers / 32, lane = tid % 32;
    if (warp == 0 && lane == 0) {
      wait_for_primary();
      const auto start_a = a.template start<Tile::kM>(blockIdx.x);
      const auto start_b = b.template start<Tile::kN>(blockIdx.y);
      const uint32_t bytes = a.template bytes<Tile::kM>() + b.template bytes<Tile::kN>();
      int stage = 0, phase = 0;
      for (int i = 0; i < count; ++i) {
        if (i >= kStages) smem.empty[stage].wait(phase ^ 1);
        smem.full[stage].expect(bytes);
        a.template copy<Tile::kM>(start_a, first + i, smem.stage[stage].a, smem.full[stage]);
        b.template copy<Tile::kN>(start_b, first + i, smem.stage[stage].b, smem.full[stage]);
        if (++stage == kStages) stage = 0, phase ^= 1;
      }
    } else if (sums && warp >= 1 && warp <= kSumWarps) {
      // A lane adds up two rows; 64 of them are one row of 128 bytes a term.
      const int chunk = warp - 1;
      float total[2] = {};
      int stage = 0, phase = 0;
      for (int i = 0; i < count; ++i) {
        smem.full[stage].wait(phase);
        const char* const rows = smem.stage[stage].a + chunk * kStepDepth * kRowBytes;
#pragma unroll 8
        for (int k = 0; k < kStepDepth; ++k) {
          const int piece = lane / 4 ^ (k & 7);
          const auto pair =
              *reinterpret_cast<const uint32_t*>(rows + k * kRowBytes + piece * 16 + lane % 4 * 4);
          total[0] += __uint_as_float(pair << 16);
          total[1] += __uint_as_float(pair & 0xffff0000u);
        }
        __syncwarp();
        if (lane == 0) smem.empty[stage].arrive();
        if (++stage == kStages) stage = 0, phase ^= 1;
      }
      asm volatile("bar.arrive 1, %0;" ::"r"(readers) : "memory");
      const auto start = a.template start<Tile::kM>(blockIdx.x);
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        int image, row;
        if (a.locate(start, chunk * kStepDepth + lane * 2 + e, image, row))
          result.row_sums[blockIdx.z * result.stride + row] = total[e];
      }
    }
  } else {
    take_registers<232>();
    float d[Tile::kN / 2];
    int stage = 0, phase = 0;
    for (int i = 0; i < count; ++i) {
      smem.full[stage].wait(phase);
      const char* const rows_a = smem.stage[stage].a + group * kStepDepth * kRowBytes;
      const char* const rows_b = smem.stage[stage].b;
      wgmma_begin();
#pragma unroll
      for (int k = 0; k < kStepDepth / 16; ++k) {
        constexpr int kNextA = A::kTurned ? 16 * kRowBytes : 32, kBlock = kStepDepth * kRowBytes;
        constexpr int kNextB = B::kTurned ? 16 * kRowBytes : 32;
        Wgmma<Tile::kN, A::kTurned, B::kTurned>::multiply(
            d, matrix_descriptor(rows_a + k * kNextA, kBlock),
            matrix_descriptor(rows_b + k * kNextB, kBlock), i > 0 || k > 0);
      }
      wgmma_commit();
      wgmma_wait<1>();  // the step before has read its stage
      if (i > 0 && tid % 128 == 0) smem.empty[stage == 0 ? kStages - 1 : stage - 1].arrive();
      if (++stage == kStages) stage = 0, phase ^= 1;
    }
    wgmma_wait<0>();
    wait_multipliers(readers);  // nobody reads the stages any more
    result.template store<Tile>(d, a, a.template start<Tile::kM>(blockIdx.x), smem);
  }
#else
  __trap();
#endif
}

/// How a product of `row_tiles` tiles of 128 rows is computed: columns of a tile, and splits of its
/// sum, which leave partial results in the workspace.
struct WgmmaPlan {
  int row_tiles = 1, columns = 1, steps = 1, tile_columns = 128, splits = 1, steps_per_split = 1;

  WgmmaPlan() = default;
  /// `results` of the product, of which `limit` bytes of partial ones may be written.
  WgmmaPlan(int row_tiles_, int columns_, int steps_, int64_t results, size_t limit,
            int multiprocessors)
      : row_tiles(row_tiles_), columns(columns_), steps(steps_) {
    // In cycles of a multiprocessor, as measured on an H200 to within what ranks plans: a step takes
    // four a column, a block about 4000 besides, and a second kernel 3000 and its memory traffic.
    double best = 1e300;
    for (const int tile : {256, 128, 64}) {
      const int64_t tiles = int64_t{row_tiles} * ceil_div(columns, tile);
      for (int wanted = 1; wanted <= std::min(steps, 64); ++wanted) {
        const int per_split = ceil_div(steps, wanted), used = ceil_div(steps, per_split);
        if (used != wanted) continue;
        if (used > 1 && double(used) * results * sizeof(float) > double(limit)) break;
        const int64_t waves = (tiles * used + multiprocessors - 1) / multiprocessors;
        double cost = double(waves) * (per_split * (60. + 4 * tile) + 4000 + 8 * tile);
        if (used > 1) cost += 3000 + 8. * used * results / 2000;
        if (cost >= best) continue;
        best = cost;
        tile_columns = tile, splits = used, steps_per_split = per_split;
      }
    }
  }
  std::string text() const {
    return "tile 128x" + std::to_string(tile_columns) +
           (splits == 1 ? "" : ", " + std::to_string(splits) + " splits") + ", wgmma bf16";
  }
  /// Calls visit(tile).
  template <class Visit>
  void with_tile(Visit visit) const {
    if (tile_columns == 256) return visit(WgmmaTile<256, 4>{});
    if (tile_columns == 128) return visit(WgmmaTile<128, 6>{});
    visit(WgmmaTile<64, 8>{});
  }
};

template <class Tile, class A, class B, class Result>
void launch_wgmma_product(const WgmmaPlan& plan, const A& a, const B& b, const Result& result,
                          cudaStream_t stream) {
  const auto kernel = wgmma_product_kernel<Tile, A, B, Result>;
  constexpr int kBytes = sizeof(WgmmaSmem<Tile>) + 1024;  // to begin at a multiple of 1024
  DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
  launch({.gridDim = dim3(plan.row_tiles, ceil_div(plan.columns, Tile::kN), plan.splits),
          .blockDim = Tile::kThreads,
          .dynamicSmemBytes = kBytes,
          .stream = stream},
         {overlaps_primary()}, kernel, a, b, plan.steps, plan.steps_per_split, result);
}

/// Why this GPU, or this build for it, has no wgmma; nothing where there is no GPU to ask.
inline std::optional<std::string> wgmma_unsupported() {
  if (!gpu_available()) return {};
  if (gpu_attribute(cudaDevAttrComputeCapabilityMajor) == 9 && DUET_WGMMA_BUILT) return {};
  return "multiplies by wgmma, which takes a GPU of compute capability 9.0 and a build for it";
}

}  // namespace duet
