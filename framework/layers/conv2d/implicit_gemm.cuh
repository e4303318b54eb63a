// The float32 matrix product behind every implicit-GEMM convolution: acc[m][n] = sum_k A(m, k) *
// B(k, n), where A and B are not stored anywhere but gathered from tensors by small policy classes
// ("gathers").
//
// One step of the main loop: the next 8-deep tile of A and B travels from global memory to
// registers while the present one, in shared memory, is multiplied; then it is stored to the other
// shared-memory buffer. One barrier a step.
//
// A gather G maps (row, k) to a value, row being m for A and n for B:
//   kVec        elements fetched at once (1 or 4), along the direction that kRowLanes names
//   kRowLanes   true: neighbouring lanes take neighbouring rows; false: neighbouring k. Choose the
//               one that is contiguous in memory.
//   Row, Col    what is worth computing once for a row and once for a k; row(i) and col(k) build
//               them, col(-1) the Col of a k beyond the end. A Col is two or four ints: with
//               kRowLanes it goes through shared memory.
//   fetch(Row, Col, float[kVec])   the values, zero outside the tensor or beyond the last row or k
#pragma once

#include <cuda_runtime.h>

namespace duet {

template <int block_m, int block_n, int thread_n = 8>
struct GemmTile {
  static constexpr int kM = block_m, kN = block_n, kK = 8;
  static constexpr int kThreadM = 8, kThreadN = thread_n;
  static constexpr int kThreadsX = kN / kThreadN, kThreads = (kM / kThreadM) * kThreadsX;
  // Blocks a multiprocessor, which caps the registers: 128 a thread, but 168 where 128 would spill.
  static constexpr int kMinBlocks = kThreads == 256 ? 2 : kThreadN == 8 ? 3 : 512 / kThreads;
  // Rows are padded by four floats: k-lane stores (8 k x 4 rows a warp) then hit 32 banks.
  static constexpr int kPitchM = kM + 4, kPitchN = kN + 4;
  static constexpr int kStageFloats = kK * (kPitchM + kPitchN);
};

// One operand's trip from global memory to shared memory.
template <class Gather, class Tile, int rows, int pitch>
struct OperandPipe {
  static constexpr int kVec = Gather::kVec;
  static constexpr int kThreads = Tile::kThreads, kDepth = Tile::kK;
  static constexpr int kCount = rows * kDepth / kVec / kThreads;  // fetches of a thread for a tile
  static_assert(rows * kDepth % (kVec * kThreads) == 0);
  static constexpr int kRowUnits = Gather::kRowLanes ? rows / kVec : rows;
  static constexpr int kLanesPerRow = kDepth / kVec;  // k lanes
  static constexpr int kSlots = Gather::kRowLanes ? (kRowUnits + kThreads - 1) / kThreads : kCount;
  static_assert(!Gather::kRowLanes || kThreads % kRowUnits == 0 || kRowUnits % kThreads == 0);
  // Threads that hold values of one row: as many partial row sums.
  static constexpr int kContributors =
      Gather::kRowLanes ? (kSlots > 1 ? 1 : kThreads / kRowUnits) : kLanesPerRow;

  typename Gather::Row row_state[kSlots];
  float value[kCount][kVec];

  __device__ __forceinline__ static int row_of(int j) {
    const int unit = int(threadIdx.x) + j * kThreads;
    return Gather::kRowLanes ? (unit % kRowUnits) * kVec : unit / kLanesPerRow;
  }
  __device__ __forceinline__ static int depth_of(int j) {
    const int unit = int(threadIdx.x) + j * kThreads;
    return Gather::kRowLanes ? unit / kRowUnits : (unit % kLanesPerRow) * kVec;
  }
  __device__ __forceinline__ void init(const Gather& gather, int first_row) {
#pragma unroll
    for (int j = 0; j < kSlots; ++j) row_state[j] = gather.row(first_row + row_of(j));
  }
  // cols: the tile's kDepth Cols in shared memory (row lanes only).
  __device__ __forceinline__ void fetch(const Gather& gather, int k0, int k_end,
                                        const typename Gather::Col* cols) {
    if constexpr (Gather::kRowLanes) {
#pragma unroll
      for (int j = 0; j < kCount; ++j)
        gather.fetch(row_state[j % kSlots], cols[depth_of(j)], value[j]);
    } else {
      const int k = k0 + depth_of(0);
      const typename Gather::Col col = gather.col(k < k_end ? k : -1);
#pragma unroll
      for (int j = 0; j < kCount; ++j) gather.fetch(row_state[j], col, value[j]);
    }
  }
  __device__ __forceinline__ void store(float* smem) const {
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      float* at = smem + depth_of(j) * pitch + row_of(j);
      if constexpr (kVec == 1) {
        *at = value[j][0];
      } else if constexpr (Gather::kRowLanes) {
        *reinterpret_cast<float4*>(at) =
            make_float4(value[j][0], value[j][1], value[j][2], value[j][3]);
      } else {
#pragma unroll
        for (int e = 0; e < kVec; ++e) at[e * pitch] = value[j][e];
      }
    }
  }
};

template <class Tile, class GatherA, class GatherB>
struct alignas(16) GemmSmem {
  float stage[2][Tile::kStageFloats];
  alignas(16) typename GatherA::Col cols_a[2][Tile::kK];
  alignas(16) typename GatherB::Col cols_b[2][Tile::kK];
};

// The rows and columns of a thread's accumulators.
__device__ __forceinline__ int gemm_row(int i, int thread_y, int block_m) {  // i in [0, 8)
  return (i / 4) * (block_m / 2) + thread_y * 4 + i % 4;
}
template <class Tile>
__device__ __forceinline__ int gemm_col(int j, int thread_x) {
  return Tile::kThreadN == 8 ? (j / 4) * (Tile::kN / 2) + thread_x * 4 + j % 4 : thread_x * 4 + j;
}

// acc[i][j] = sum of A(row i, k) * B(k, column j) over k in [k_begin, k_end). With kWantRowSums,
// row_sums_out[row] = sum of A(row, k), in shared memory, unless row_sums_out is nullptr.
template <class Tile, bool kWantRowSums, class GatherA, class GatherB>
__device__ __forceinline__ void gemm_mainloop(const GatherA& gather_a, const GatherB& gather_b,
                                              int m0, int n0, int k_begin, int k_end,
                                              GemmSmem<Tile, GatherA, GatherB>& smem,
                                              float (&acc)[Tile::kThreadM][Tile::kThreadN],
                                              float* row_sums_out) {
  using PipeA = OperandPipe<GatherA, Tile, Tile::kM, Tile::kPitchM>;
  using PipeB = OperandPipe<GatherB, Tile, Tile::kN, Tile::kPitchN>;
  const int tid = threadIdx.x;
  const int tx = tid % Tile::kThreadsX, ty = tid / Tile::kThreadsX;
  PipeA pipe_a;
  PipeB pipe_b;
  pipe_a.init(gather_a, m0);
  pipe_b.init(gather_b, n0);
#pragma unroll
  for (int i = 0; i < Tile::kThreadM; ++i)
#pragma unroll
    for (int j = 0; j < Tile::kThreadN; ++j) acc[i][j] = 0.f;
  float row_sum[PipeA::kSlots][PipeA::kVec] = {};

  const int steps = (k_end - k_begin + Tile::kK - 1) / Tile::kK;
  auto write_cols = [&](int step) {
    if (tid < Tile::kK) {
      const int k = k_begin + step * Tile::kK + tid;
      if constexpr (GatherA::kRowLanes)
        smem.cols_a[step & 1][tid] = gather_a.col(k < k_end ? k : -1);
      if constexpr (GatherB::kRowLanes)
        smem.cols_b[step & 1][tid] = gather_b.col(k < k_end ? k : -1);
    }
  };
  constexpr bool kHasCols = GatherA::kRowLanes || GatherB::kRowLanes;
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
    float* stage = smem.stage[step & 1];
    pipe_a.store(stage);
    pipe_b.store(stage + Tile::kK * Tile::kPitchM);
    if constexpr (kWantRowSums) {
#pragma unroll
      for (int j = 0; j < PipeA::kCount; ++j)
#pragma unroll
        for (int e = 0; e < PipeA::kVec; ++e) row_sum[j % PipeA::kSlots][e] += pipe_a.value[j][e];
    }
  };
  fetch(0);
  store(0);
  __syncthreads();

  for (int step = 0; step < steps; ++step) {
    if (step + 1 < steps) fetch(step + 1);
    if constexpr (kHasCols) write_cols(step + 2);
    const float* a = smem.stage[step & 1] + ty * 4;
    const float* b = smem.stage[step & 1] + Tile::kK * Tile::kPitchM + tx * 4;
#pragma unroll
    for (int k = 0; k < Tile::kK; ++k) {
      float fa[Tile::kThreadM], fb[Tile::kThreadN];
#pragma unroll
      for (int i = 0; i < Tile::kThreadM; i += 4)
        *reinterpret_cast<float4*>(&fa[i]) =
            *reinterpret_cast<const float4*>(a + k * Tile::kPitchM + (i / 4) * (Tile::kM / 2));
#pragma unroll
      for (int j = 0; j < Tile::kThreadN; j += 4)
        *reinterpret_cast<float4*>(&fb[j]) =
            *reinterpret_cast<const float4*>(b + k * Tile::kPitchN + (j / 4) * (Tile::kN / 2));
#pragma unroll
      for (int i = 0; i < Tile::kThreadM; ++i)
#pragma unroll
        for (int j = 0; j < Tile::kThreadN; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
    }
    if (step + 1 < steps) store(step + 1);
    __syncthreads();
  }

  if constexpr (kWantRowSums) {
    if (row_sums_out != nullptr) {     // uniform over the block
      float* scratch = smem.stage[0];  // [contributor][row]
      static_assert(PipeA::kContributors * Tile::kM <= 2 * Tile::kStageFloats);
#pragma unroll
      for (int j = 0; j < PipeA::kSlots; ++j)
#pragma unroll
        for (int e = 0; e < PipeA::kVec; ++e) {
          const int contributor = GatherA::kRowLanes
                                      ? (PipeA::kSlots > 1 ? 0 : tid / PipeA::kRowUnits)
                                      : tid % PipeA::kLanesPerRow;
          if constexpr (GatherA::kRowLanes) {
            scratch[contributor * Tile::kM + PipeA::row_of(j) + e] = row_sum[j][e];
          } else if (e == 0) {
            float total = 0.f;
#pragma unroll
            for (int v = 0; v < PipeA::kVec; ++v) total += row_sum[j][v];
            scratch[contributor * Tile::kM + PipeA::row_of(j)] = total;
          }
        }
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
