// The matrix product behind every implicit-GEMM convolution and every linear layer on tensor cores:
// acc[m][n] = sum_k A(m, k) * B(k, n), where A and B are not stored as matrices but gathered from
// tensors by small policy classes ("gathers"). What multiplies is the tile's matter: ordinary FMA
// (kernels/fma_tile.cuh) or tensor cores (kernels/mma_tile.cuh).
//
// One step of the main loop: a slice of A and B, kK deep, in shared memory is multiplied. Meanwhile
// the next one travels from global memory to registers, and is then stored to the other of two
// buffers. Where both operands lie as the tile takes them they are copied past the registers
// (cp.async), several slices ahead. One barrier a step.
//
// A gather G maps (row, k) to a value, row being m for A and n for B:
//   Value       what the tensor stores: float or bfloat16
//   kVec        values fetched at once, along the direction that kRowLanes names
//   kRowLanes   true: neighbouring lanes take neighbouring rows; false: neighbouring k. Choose the
//               one that is contiguous in memory.
//   Row, Col    what is worth computing once for a row and once for a k; row(i) and col(k) build
//               them, col(-1) the Col of a k beyond the end. A Col is two or four ints: with
//               kRowLanes it goes through shared memory.
//   offset(Row, Col)   where the values lie in data(); negative outside the tensor or beyond the last
//               row or k, where they count as zeros. (A pointer, nullptr outside, costs a 64-bit
//               select, and nvcc 13.0 has dropped the test of one.)
//   fetch(Row, Col, Packed<Value, kVec>&)   instead of both where they do not lie as they are
//
// A tile says how large a block's part of the product is and computes with slices of it:
//   kM, kN, kK          rows, columns and depth; kThreads of a block
//   kThreadM, kThreadN  accumulators of a thread: acc[kThreadM][kThreadN]
//   kRun, kRowRun       so many neighbouring columns j (rows i) of acc are neighbours in the product
//   kThreadsX           threads that hold different columns; thread_x() is this thread's number
//   row(i), col(j, x)   the block's row of acc[i][...], and column of acc[...][j] of thread x
//   kStages             slices in shared memory where they are copied
//   kCopies<T, count>   whether `count` neighbouring T of a tensor are copied into a slice; 4, 8 or 16 bytes
//   kSpan               k that a thread fetches at least where lanes run along k and nothing is copied
//   Slice<rows, row_lanes, T>   an operand, of a tensor of T, in shared memory: Element, kElements, and
//               put(slice, row, k, values)
//   multiply<row_lanes_a, row_lanes_b>(a, b, acc)   acc += the product of two slices
#pragma once

#include <cuda_runtime.h>

#include "device/check.h"
#include "device/launch.h"
#include "kernels/vector.cuh"

namespace duet {

/// Whether what is fetched at once lies in the slice as in the tensor, so that it can be copied.
template <class Gather, class Tile>
constexpr bool kCopied = [] {
  if constexpr (requires(const Gather& g, typename Gather::Row r, typename Gather::Col c) {
                  g.offset(r, c);
                }) {
    return Tile::template kCopies<typename Gather::Value, Gather::kVec>;
  }
  return false;
}();

template <class Gather>
__device__ __forceinline__ void fetch_from(const Gather& gather, const typename Gather::Row& row,
                                           const typename Gather::Col& col,
                                           Packed<typename Gather::Value, Gather::kVec>& value) {
  if constexpr (requires { gather.fetch(row, col, value); }) {
    gather.fetch(row, col, value);
  } else {
    value = {};
    const int offset = gather.offset(row, col);
    if (offset >= 0) value = value.load(gather.data() + offset);
  }
}

// One operand's trip from global memory to shared memory.
template <class Gather, class Tile, int rows>
struct OperandPipe {
  using Value = typename Gather::Value;
  using Slice = typename Tile::template Slice<rows, Gather::kRowLanes, Value>;
  using Element = typename Slice::Element;
  static constexpr int kVec = Gather::kVec, kThreads = Tile::kThreads, kDepth = Tile::kK;
  // Values that are stored at once, in kParts fetches.
  static constexpr int kRun =
      Gather::kRowLanes || kCopied<Gather, Tile> || kVec > Tile::kSpan ? kVec : Tile::kSpan;
  static constexpr int kParts = kRun / kVec;
  static constexpr int kCount = rows * kDepth / kRun / kThreads;  // stores of a thread for a slice
  static_assert(kCount > 0 && rows * kDepth % (kRun * kThreads) == 0);
  static constexpr int kRowUnits = Gather::kRowLanes ? rows / kRun : rows;
  static constexpr int kLanesPerRow = kDepth / kRun;  // k lanes
  static constexpr int kSlots = Gather::kRowLanes ? (kRowUnits + kThreads - 1) / kThreads : kCount;
  static_assert(!Gather::kRowLanes || kThreads % kRowUnits == 0 || kRowUnits % kThreads == 0);
  // Rows that a store of row lanes covers, and threads that hold values of one row: as many partial
  // row sums.
  static constexpr int kStoredRows = Gather::kRowLanes ? kRun : 1;
  static constexpr int kContributors =
      Gather::kRowLanes ? (kSlots > 1 ? 1 : kThreads / kRowUnits) : kLanesPerRow;

  typename Gather::Row row_state[kSlots];
  Packed<Value, kVec> value[kCount][kParts];

  __device__ __forceinline__ static int row_of(int j) {
    const int unit = int(threadIdx.x) + j * kThreads;
    return Gather::kRowLanes ? (unit % kRowUnits) * kRun : unit / kLanesPerRow;
  }
  __device__ __forceinline__ static int depth_of(int j) {
    const int unit = int(threadIdx.x) + j * kThreads;
    return Gather::kRowLanes ? unit / kRowUnits : (unit % kLanesPerRow) * kRun;
  }
  __device__ __forceinline__ static int contributor() {
    if (!Gather::kRowLanes) return threadIdx.x % kLanesPerRow;
    return kSlots > 1 ? 0 : threadIdx.x / kRowUnits;
  }
  __device__ __forceinline__ void init(const Gather& gather, int first_row) {
#pragma unroll
    for (int j = 0; j < kSlots; ++j) row_state[j] = gather.row(first_row + row_of(j));
  }
  // cols: the slice's kDepth Cols in shared memory (row lanes only).
  __device__ __forceinline__ void fetch(const Gather& gather, int k0, int k_end,
                                        const typename Gather::Col* cols) {
    if constexpr (Gather::kRowLanes) {
#pragma unroll
      for (int j = 0; j < kCount; ++j)
        fetch_from(gather, row_state[j % kSlots], cols[depth_of(j)], value[j][0]);
    } else {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const int k = k0 + depth_of(0) + part * kVec;
        const typename Gather::Col col = gather.col(k < k_end ? k : -1);
#pragma unroll
        for (int j = 0; j < kCount; ++j) fetch_from(gather, row_state[j], col, value[j][part]);
      }
    }
  }
  __device__ __forceinline__ void store(Element* slice) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      Vector<Value, kRun> run;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Vector<Value, kVec> values = value[j][part].values();
#pragma unroll
        for (int e = 0; e < kVec; ++e) run.v[part * kVec + e] = values.v[e];
      }
      Slice::put(slice, row_of(j), depth_of(j), run);
    }
  }
  // Starts copying instead of fetch() and store(); kCopied only.
  __device__ __forceinline__ void copy(const Gather& gather, int k0, int k_end,
                                       const typename Gather::Col* cols, Element* slice) const {
    typename Gather::Col col;
    if constexpr (!Gather::kRowLanes) {
      const int k = k0 + depth_of(0);
      col = gather.col(k < k_end ? k : -1);
    }
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if constexpr (Gather::kRowLanes) col = cols[depth_of(j)];
      // region copy
      const int offset = gather.offset(row_state[j % kSlots], col);
      const auto to = uint32_t(__cvta_generic_to_shared(Slice::at(slice, row_of(j), depth_of(j))));
      // Nothing is read where 0 bytes are; the address must be one all the same.
      constexpr int kBytes = sizeof(Value) * kVec;
      asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                   "l"(gather.data() + max(offset, 0)), "n"(kBytes), "r"(offset < 0 ? 0 : kBytes)
                   : "memory");
      // end copy
    }
  }
  // Adds the slice's values to the sums of its rows.
  __device__ __forceinline__ void add_to(float (&row_sum)[kSlots][kStoredRows]) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j)
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Vector<Value, kVec> values = value[j][part].values();
#pragma unroll
        for (int e = 0; e < kVec; ++e)
          row_sum[j % kSlots][Gather::kRowLanes ? e : 0] += float(values.v[e]);
      }
  }
};

template <class Tile, class GatherA, class GatherB>
struct alignas(16) ProductSmem {
  using SliceA =
      typename Tile::template Slice<Tile::kM, GatherA::kRowLanes, typename GatherA::Value>;
  using SliceB =
      typename Tile::template Slice<Tile::kN, GatherB::kRowLanes, typename GatherB::Value>;
  static_assert(SliceA::kElements * sizeof(typename SliceA::Element) % 16 == 0);
  static constexpr bool kCopies = kCopied<GatherA, Tile> && kCopied<GatherB, Tile>;
  static constexpr int kStages = kCopies ? Tile::kStages : 2;
  struct Stage {
    alignas(16) typename SliceA::Element a[SliceA::kElements];
    alignas(16) typename SliceB::Element b[SliceB::kElements];
  };
  static constexpr int kScratchFloats = kStages * sizeof(Stage) / sizeof(float);
  Stage stage[kStages];
  alignas(16) typename GatherA::Col cols_a[2][Tile::kK];
  alignas(16) typename GatherB::Col cols_b[2][Tile::kK];

  // The slices' memory, for who comes after the main loop: kScratchFloats.
  __device__ __forceinline__ float* scratch() { return reinterpret_cast<float*>(stage); }
};

/// In a kernel: its dynamic shared memory.
template <class Smem>
__device__ __forceinline__ Smem& product_smem() {
  extern __shared__ __align__(16) unsigned char product_memory[];
  return *reinterpret_cast<Smem*>(product_memory);
}

/// Launches a kernel that has a Smem, whatever its size.
template <class Smem, class... Parameters, class... Arguments>
void launch_product_kernel(void (*kernel)(Parameters...), dim3 grid, int threads,
                           cudaStream_t stream, const Arguments&... arguments) {
  if constexpr (sizeof(Smem) > 46 * 1024) {  // of 48 KiB, some of which may be declared
    DUET_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(sizeof(Smem))));
  }
  launch_following({grid, threads, sizeof(Smem), stream}, kernel, arguments...);
}

// acc[i][j] = sum of A(row i, k) * B(k, column j) over k in [k_begin, k_end). With kWantRowSums,
// row_sums_out[row] = sum of A(row, k), in shared memory, unless row_sums_out is nullptr. At the
// end smem is free.
template <class Tile, bool kWantRowSums, class GatherA, class GatherB>
__device__ __forceinline__ void compute_product(const GatherA& gather_a, const GatherB& gather_b,
                                                int m0, int n0, int k_begin, int k_end,
                                                ProductSmem<Tile, GatherA, GatherB>& smem,
                                                float (&acc)[Tile::kThreadM][Tile::kThreadN],
                                                float* row_sums_out) {
  using Smem = ProductSmem<Tile, GatherA, GatherB>;
  using PipeA = OperandPipe<GatherA, Tile, Tile::kM>;
  using PipeB = OperandPipe<GatherB, Tile, Tile::kN>;
  const int tid = threadIdx.x;
  PipeA pipe_a;
  PipeB pipe_b;
  pipe_a.init(gather_a, m0);
  pipe_b.init(gather_b, n0);
#pragma unroll
  for (int i = 0; i < Tile::kThreadM; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kThreadN; ++j) acc[i][j] = 0.f;

  const int steps = (k_end - k_begin + Tile::kK - 1) / Tile::kK;
  constexpr bool kHasCols = GatherA::kRowLanes || GatherB::kRowLanes;
  auto write_cols = [&](int step) {
    if (kHasCols && tid < Tile::kK) {
      const int k = k_begin + step * Tile::kK + tid;
      if constexpr (GatherA::kRowLanes)
        smem.cols_a[step & 1][tid] = gather_a.col(k < k_end ? k : -1);
      if constexpr (GatherB::kRowLanes)
        smem.cols_b[step & 1][tid] = gather_b.col(k < k_end ? k : -1);
    }
  };
  auto multiply = [&](const typename Smem::Stage& stage) {
    Tile::template multiply<GatherA::kRowLanes, GatherB::kRowLanes>(stage.a, stage.b, acc);
  };

  if constexpr (Smem::kCopies) {
    constexpr int kStages = Smem::kStages;
    int copied = 0, copy_stage = 0;
    auto copy = [&] {
      if (copied < steps) {
        const int k = k_begin + copied * Tile::kK;
        auto& stage = smem.stage[copy_stage];
        pipe_a.copy(gather_a, k, k_end, smem.cols_a[copied & 1], stage.a);
        pipe_b.copy(gather_b, k, k_end, smem.cols_b[copied & 1], stage.b);
      }
      ++copied;
      copy_stage = copy_stage + 1 == kStages ? 0 : copy_stage + 1;
      asm volatile("cp.async.commit_group;" ::: "memory");
    };
    write_cols(0);
#pragma unroll
    for (int step = 0; step < kStages - 1; ++step) {
      if constexpr (kHasCols) __syncthreads();
      copy();
      write_cols(step + 1);
    }
    // Neighbouring lanes share a row that lies in one piece, and read it by 16 bytes.
    constexpr int kRowThreads = GatherA::kRowLanes ? 1 : Tile::kThreads / Tile::kM;
    static_assert(!kWantRowSums || Tile::kThreads % Tile::kM == 0);
    const int row = tid / kRowThreads;
    float row_sum = 0.f;
    int now = 0;
    for (int step = 0; step < steps; ++step) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
      __syncthreads();
      copy();
      write_cols(step + kStages);
      const auto& stage = smem.stage[now];
      now = now + 1 == kStages ? 0 : now + 1;
      multiply(stage);
      if constexpr (kWantRowSums) {
        using Element = typename Smem::SliceA::Element;
        constexpr int kVec = GatherA::kRowLanes ? 1 : 16 / sizeof(Element);
        constexpr int kEach = Tile::kK / kRowThreads;
        if (row_sums_out != nullptr && row < Tile::kM) {
#pragma unroll
          for (int k = 0; k < kEach; k += kVec) {
            Packed<Element, kVec> packed;
            packed.word = *reinterpret_cast<const WordOf<sizeof(Element) * kVec>*>(
                PipeA::Slice::at(stage.a, row, tid % kRowThreads * kEach + k));
            const Vector<Element, kVec> values = packed.values();
#pragma unroll
            for (int e = 0; e < kVec; ++e) row_sum += Tile::value(values.v[e]);
          }
        }
      }
    }
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    if constexpr (kWantRowSums) {
#pragma unroll
      for (int lane = kRowThreads / 2; lane > 0; lane /= 2)
        row_sum += __shfl_xor_sync(~0u, row_sum, lane);
      if (row_sums_out != nullptr && row < Tile::kM && tid % kRowThreads == 0)
        row_sums_out[row] = row_sum;
    }
    __syncthreads();
  } else {
    float row_sum[PipeA::kSlots][PipeA::kStoredRows] = {};
    if constexpr (kHasCols) {
      write_cols(0);
      write_cols(1);
      __syncthreads();
    }
    auto fetch = [&](int step) {
      pipe_a.fetch(gather_a, k_begin + step * Tile::kK, k_end, smem.cols_a[step & 1]);
      pipe_b.fetch(gather_b, k_begin + step * Tile::kK, k_end, smem.cols_b[step & 1]);
    };
    auto store = [&](int step) {
      auto& stage = smem.stage[step & 1];
      pipe_a.store(stage.a);
      pipe_b.store(stage.b);
      if constexpr (kWantRowSums) pipe_a.add_to(row_sum);
    };
    fetch(0);
    store(0);
    __syncthreads();

    for (int step = 0; step < steps; ++step) {
      if (step + 1 < steps) fetch(step + 1);
      if constexpr (kHasCols) write_cols(step + 2);
      multiply(smem.stage[step & 1]);
      if (step + 1 < steps) store(step + 1);
      __syncthreads();
    }
    if (kWantRowSums && row_sums_out != nullptr) {  // uniform over the block
      float* scratch = smem.scratch();              // [contributor][row]
      static_assert(PipeA::kContributors * Tile::kM <= Smem::kScratchFloats);
#pragma unroll
      for (int j = 0; j < PipeA::kSlots; ++j)
#pragma unroll
        for (int e = 0; e < PipeA::kStoredRows; ++e)
          scratch[PipeA::contributor() * Tile::kM + PipeA::row_of(j) + e] = row_sum[j][e];
      __syncthreads();
      for (int row = tid; row < Tile::kM; row += Tile::kThreads) {
        float total = 0.f;
#pragma unroll
        for (int v = 0; v < PipeA::kContributors; ++v) total += scratch[v * Tile::kM + row];
        row_sums_out[row] = total;
      }
      __syncthreads();
    }
  }
}

}  // namespace duet
