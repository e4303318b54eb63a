// The matrix product of linear custom_register_tiled: C (m x n, row-major) = A B, with A (m x k)
// and B (k x n) each stored with k inner or outer, fp32 FMA. One kernel template serves the three
// passes:
//   forward          A = x  (k inner)  B = w (k inner)  epilogue adds the bias
//   backward_data    A = dy (k inner)  B = w (k outer)
//   backward_filter  A = dy (k outer)  B = x (k outer)  the row sums of A are the bias gradient
//
// A block owns a tile of C and a range of k. Its warps form groups; each group owns the whole tile
// over a part of that range, brings slices of both operands through a ring of its own in shared
// memory (cp.async), and waits for nobody else until its sums are done. So small tiles keep four
// warps busy without a barrier of the block in the loop. A lane keeps kLaneM x kLaneN sums in
// registers and reads both operands four k at a time by 16-byte loads, one step ahead of the FMA.
// The sums of all groups are added in a fixed order: those of a block in its shared memory, those
// of several blocks (split-K) through partial results in the workspace and a second kernel.
#pragma once

#include <cuda_pipeline.h>

#include <cstdint>

#include "device/launch.h"
#include "layers/activation/activation.h"

namespace duet::linear {

struct Product {
  int m, n, k;
  int k_range;  // of one group; a multiple of 4
  const float* a;
  const float* b;
  const float* bias;  // n, added to every row; may be nullptr
  float* c;
  float* row_sums;  // m, the sums of A over k; may be nullptr; A stored with k outer only
  float* partials;  // gridDim.z times partial_floats(m, n), or nullptr: C is written at once
  bool relu;        // of C
};

/// Floats of one range's partial result: C, then the row sums, padded to 16 bytes.
__host__ __device__ inline int64_t partial_floats(int m, int n) {
  return (int64_t{m} * n + m + 3) / 4 * 4;
}

/// 32 lanes stand 8 x 4 in a warp's tile of 8 kLaneM x 4 kLaneN.
template <int lane_m, int lane_n, int warps_m, int warps_n, int groups, int depth, int stages,
          int blocks_per_sm, bool ahead>
struct Tile {
  static constexpr int kLaneM = lane_m, kLaneN = lane_n;
  static constexpr int kWarpsM = warps_m, kWarpsN = warps_n, kGroups = groups;
  static constexpr int kM = 8 * lane_m * warps_m, kN = 4 * lane_n * warps_n;
  static constexpr int kDepth = depth, kStages = stages, kBlocksPerSm = blocks_per_sm;
  static constexpr bool kAhead = ahead;  // read the next step's operands before this step's FMA
  static constexpr int kGroupThreads = 32 * warps_m * warps_n;
  static constexpr int kThreads = kGroupThreads * groups;
  static constexpr int kPitch = kN + 4;  // of the staged result; its column kN holds the row sums
  static_assert(depth % 8 == 0 && lane_n % 4 == 0);
};

/// One operand's slice of kRows x kDepth in shared memory, k inner or outer as in global memory,
/// and one thread's part in filling it.
template <class T, int kRows, bool kInner, int kVector>
struct Operand {
  // With k inner, the 16 bytes of padding make the pitch an odd number of 16-byte words, so that
  // eight lanes reading eight rows touch all 32 banks once.
  static constexpr int kPitch = kInner ? T::kDepth + 4 : kRows;
  static constexpr int kLines = kInner ? kRows : T::kDepth;
  static constexpr int kFloats = kLines * kPitch;
  static constexpr int kPerLine = (kInner ? T::kDepth : kRows) / kVector;
  // Threads walk lines; a line longer than the group takes several passes.
  static constexpr int kAcross = kPerLine < T::kGroupThreads ? kPerLine : T::kGroupThreads;
  static constexpr int kPasses = kPerLine / kAcross;
  static constexpr int kLineStep = T::kGroupThreads / kAcross;
  static constexpr int kCopies = (kLines + kLineStep - 1) / kLineStep;
  static_assert(T::kGroupThreads % kAcross == 0 && kPerLine % kAcross == 0);

  const float* source;
  int64_t pitch;  // of global memory
  int line, offset;
  int rows;  // that are left from the first row of this thread

  __device__ Operand(const float* matrix, int all_rows, int k, int first_row, int first_k,
                     int thread)
      : pitch(kInner ? k : all_rows),
        line(thread / kAcross),
        offset(thread % kAcross * kVector),
        rows(all_rows - first_row - (kInner ? line : offset)) {
    source = matrix + (kInner ? (first_row + line) * pitch + first_k + offset
                              : (first_k + line) * pitch + first_row + offset);
  }

  /// Queues the copy of the next slice; `depth` is how much of k is left, the rest becomes zeros.
  __device__ void copy_next(float* slice, int depth) {
    const float* from = source;
    float* to = slice + line * kPitch + offset;
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int step = i * kLineStep;
      if (kLines % kLineStep != 0 && line + step >= kLines) break;
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) {
        const int across = pass * kAcross * kVector;
        const bool inside =
            kInner ? step < rows && offset + across < depth : across < rows && line + step < depth;
        __pipeline_memcpy_async(to + step * kPitch + across, from + across, 4 * kVector,
                                inside ? 0 : 4 * kVector);
      }
      from += kLineStep * pitch;
    }
    source += kInner ? T::kDepth : T::kDepth * pitch;
  }
};

/// Row of a warp's tile that register `i` of a lane with A-index `lane` (0..7) holds.
template <int kLaneM, bool kInner>
__device__ constexpr int row_of(int lane, int i) {
  constexpr int kWidth = kLaneM < 4 ? kLaneM : 4;
  return kInner ? lane + 8 * i : (i / kWidth * 8 + lane) * kWidth + i % kWidth;
}
/// Column, for B-index `lane` (0..3). The same for both orders: two neighbouring lanes that read
/// rows four apart of a slice with k inner touch different banks.
__device__ constexpr int column_of(int lane, int j) { return (j / 4 * 4 + lane) * 4 + j % 4; }

/// Four k of kCount rows, from a slice with k inner.
template <int kCount, int kPitch, class Row>
__device__ void read_inner(float (&to)[4][kCount], const float* slice, int k, Row row) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float4 v = *reinterpret_cast<const float4*>(slice + row(i) * kPitch + k);
    to[0][i] = v.x, to[1][i] = v.y, to[2][i] = v.z, to[3][i] = v.w;
  }
}

/// The same from a slice with k outer.
template <int kCount, int kPitch, class Row>
__device__ void read_outer(float (&to)[4][kCount], const float* slice, int k, Row row) {
#pragma unroll
  for (int kk = 0; kk < 4; ++kk) {
    const float* line = slice + (k + kk) * kPitch;
    if constexpr (kCount % 4 == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(line + row(i));
        to[kk][i] = v.x, to[kk][i + 1] = v.y, to[kk][i + 2] = v.z, to[kk][i + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) to[kk][i] = line[row(i)];
    }
  }
}

__device__ inline float4 operator+(float4 p, float4 q) {
  return {p.x + q.x, p.y + q.y, p.z + q.z, p.w + q.w};
}

/// Where this block writes C: the result, or its range's partial result.
__device__ inline float* target(const Product& p) {
  return p.partials ? p.partials + blockIdx.z * partial_floats(p.m, p.n) : p.c;
}

/// Writes four neighbours of a row of `matrix`, which has C's shape; `bias` may be nullptr.
__device__ inline void store4(const Product& p, float* matrix, const float* bias, int row,
                              int column, float4 v) {
  if (row >= p.m || column >= p.n) return;
  float* to = matrix + int64_t{row} * p.n + column;
  if (bias) {
    bias += column;
    const int last = p.n - 1 - column;
    v = v + float4{bias[0], bias[min(1, last)], bias[min(2, last)], bias[min(3, last)]};
  }
  if (p.relu && matrix == p.c) {
    const ReluFunction relu;
    v = {relu.forward(v.x), relu.forward(v.y), relu.forward(v.z), relu.forward(v.w)};
  }
  if (p.n % 4 == 0) {
    *reinterpret_cast<float4*>(to) = v;
    return;
  }
  to[0] = v.x;
  if (column + 1 < p.n) to[1] = v.y;
  if (column + 2 < p.n) to[2] = v.z;
  if (column + 3 < p.n) to[3] = v.w;
}

/// The same where this block writes C.
__device__ inline void store4(const Product& p, int row, int column, float4 v) {
  store4(p, target(p), p.partials ? nullptr : p.bias, row, column, v);
}

__device__ inline void store_row_sum(const Product& p, int row, float sum) {
  if (row >= p.m) return;
  (p.partials ? target(p) + int64_t{p.m} * p.n : p.row_sums)[row] = sum;
}

/// Adds the tiles that the groups left in shared memory, in their order, and writes the sum.
template <class T>
__device__ void store_staged(const Product& p, const float* staged, int row0, int column0,
                             bool row_sums) {
  const auto sum_at = [&](int offset) {  // of the four floats there
    float4 sum = *reinterpret_cast<const float4*>(staged + offset);
#pragma unroll
    for (int group = 1; group < T::kGroups; ++group) {
      sum = sum + *reinterpret_cast<const float4*>(staged + group * T::kM * T::kPitch + offset);
    }
    return sum;
  };
  constexpr int kPerRow = T::kN / 4;
  for (int i = threadIdx.x; i < T::kM * kPerRow; i += T::kThreads) {
    const int row = i / kPerRow, column = i % kPerRow * 4;
    store4(p, row0 + row, column0 + column, sum_at(row * T::kPitch + column));
  }
  if (!row_sums) return;
  for (int row = threadIdx.x; row < T::kM; row += T::kThreads) {
    store_row_sum(p, row0 + row, sum_at(row * T::kPitch + T::kN).x);
  }
}

/// Waits for the threads of one group.
template <class T>
__device__ void group_sync(int group) {
  if constexpr (T::kGroupThreads == 32) {
    __syncwarp();
  } else if constexpr (T::kGroups == 1) {
    __syncthreads();
  } else {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(T::kGroupThreads) : "memory");
  }
}

template <class T, bool kInnerA, bool kInnerB, int kVector>
constexpr size_t shared_bytes() {
  constexpr int kRings =
      T::kGroups * T::kStages *
      (Operand<T, T::kM, kInnerA, kVector>::kFloats + Operand<T, T::kN, kInnerB, kVector>::kFloats);
  constexpr int kStaged = T::kGroups * T::kM * T::kPitch;
  return sizeof(float) * (kRings > kStaged ? kRings : kStaged);
}

/// Grid: (n / kN, m / kM, ranges of k), rounded up. kVector: floats a copy to shared memory takes;
/// 4 needs every line of A and B to start on 16 bytes.
template <class T, bool kInnerA, bool kInnerB, int kVector>
__global__ void __launch_bounds__(T::kThreads, T::kBlocksPerSm)
    linear_register_tiled_kernel(const Product p) {
  wait_for_primary();
  using A = Operand<T, T::kM, kInnerA, kVector>;
  using B = Operand<T, T::kN, kInnerB, kVector>;
  extern __shared__ __align__(16) float shared[];
  constexpr int kStageFloats = A::kFloats + B::kFloats;
  constexpr int kRingFloats = T::kStages * kStageFloats;
  constexpr int kSteps = T::kDepth / 4;

  const int group = threadIdx.x / T::kGroupThreads, thread = threadIdx.x % T::kGroupThreads;
  const int row0 = blockIdx.y * T::kM, column0 = blockIdx.x * T::kN;
  const int first_k = (blockIdx.z * T::kGroups + group) * p.k_range;
  const int depth = min(p.k_range, p.k - first_k);  // not positive where k does not reach
  float* const ring = shared + group * kRingFloats;

  A a_copy(p.a, p.m, p.k, row0, first_k, thread);
  B b_copy(p.b, p.n, p.k, column0, first_k, thread);
  int copy_left = depth;
  const auto copy = [&](float* stage) {
    if (copy_left > 0) {
      a_copy.copy_next(stage, copy_left);
      b_copy.copy_next(stage + A::kFloats, copy_left);
      copy_left -= T::kDepth;
    }
    __pipeline_commit();
  };
#pragma unroll
  for (int stage = 0; stage < T::kStages - 1; ++stage) copy(ring + stage * kStageFloats);

  const int warp = thread / 32, lane = thread % 32;
  const int warp_m = warp / T::kWarpsN, warp_n = warp % T::kWarpsN;
  // Lanes 2i and 2i+1 read the same of A, lanes i and i^2 the same of B: with that a 16-byte load
  // of 16 lanes is one pass through the banks.
  const int lane_m = lane / 2 % 8, lane_n = lane % 2 + lane / 16 * 2;
  const int warp_row = warp_m * 8 * T::kLaneM, warp_column = warp_n * 4 * T::kLaneN;
  const auto row = [&](int i) { return warp_row + row_of<T::kLaneM, kInnerA>(lane_m, i); };
  const auto column = [&](int j) { return warp_column + column_of(lane_n, j); };
  const bool row_sums = !kInnerA && p.row_sums && blockIdx.x == 0;

  float sums[T::kLaneM][T::kLaneN] = {};
  float a_sums[T::kLaneM] = {};
  float a[T::kAhead + 1][4][T::kLaneM], b[T::kAhead + 1][4][T::kLaneN];
  const auto read = [&](float(&to_a)[4][T::kLaneM], float(&to_b)[4][T::kLaneN], const float* stage,
                        int k) {
    if constexpr (kInnerA) {
      read_inner<T::kLaneM, A::kPitch>(to_a, stage, k, row);
    } else {
      read_outer<T::kLaneM, A::kPitch>(to_a, stage, k, row);
    }
    if constexpr (kInnerB) {
      read_inner<T::kLaneN, B::kPitch>(to_b, stage + A::kFloats, k, column);
    } else {
      read_outer<T::kLaneN, B::kPitch>(to_b, stage + A::kFloats, k, column);
    }
  };

  int read_stage = 0;
  if (T::kAhead) {
    __pipeline_wait_prior(T::kStages - 2);
    group_sync<T>(group);
    read(a[0], b[0], ring, 0);
  }
  for (int left = depth; left > 0; left -= T::kDepth) {
    const float* stage = ring + read_stage * kStageFloats;
    float* const free_stage =
        ring + (read_stage == 0 ? T::kStages - 1 : read_stage - 1) * kStageFloats;
    read_stage = read_stage == T::kStages - 1 ? 0 : read_stage + 1;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (4 * step >= left) break;  // the rest of the last slice is zeros
      if (step == (T::kAhead ? kSteps - 1 : 0)) {
        __pipeline_wait_prior(T::kStages - 2);
        group_sync<T>(group);
        if (T::kAhead) stage = ring + read_stage * kStageFloats;
      }
      constexpr int kNext = T::kAhead ? 1 : 0;
      const int now = step * kNext % 2, next = (step + 1) * kNext % 2;
      // region multiply
      read(a[next], b[next], stage, 4 * ((step + kNext) % kSteps));
      if (step == 0) copy(free_stage);
#pragma unroll
      for (int kk = 0; kk < 4; ++kk) {
#pragma unroll
        for (int i = 0; i < T::kLaneM; ++i) {
#pragma unroll
          for (int j = 0; j < T::kLaneN; ++j) {
            sums[i][j] = fmaf(a[now][kk][i], b[now][kk][j], sums[i][j]);
          }
        }
      }
      // end multiply
      if (!kInnerA && row_sums && warp_n == 0) {
#pragma unroll
        for (int i = 0; i < T::kLaneM; ++i) {
          a_sums[i] += (a[now][0][i] + a[now][1][i]) + (a[now][2][i] + a[now][3][i]);
        }
      }
    }
  }

  if (p.partials) let_secondary_start();  // linear_sum_partials may line up
  const bool writes_row_sums = row_sums && warp_n == 0 && lane_n == 0;
  if constexpr (T::kGroups == 1) {
#pragma unroll
    for (int i = 0; i < T::kLaneM; ++i) {
#pragma unroll
      for (int j = 0; j < T::kLaneN; j += 4) {
        store4(p, row0 + row(i), column0 + column(j),
               {sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]});
      }
      if (writes_row_sums) store_row_sum(p, row0 + row(i), a_sums[i]);
    }
  } else {
    __pipeline_wait_prior(0);
    __syncthreads();  // the rings become the staged tiles, one a group
    float* staged = shared + group * T::kM * T::kPitch;
#pragma unroll
    for (int i = 0; i < T::kLaneM; ++i) {
#pragma unroll
      for (int j = 0; j < T::kLaneN; j += 4) {
        *reinterpret_cast<float4*>(staged + row(i) * T::kPitch + column(j)) = {
            sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]};
      }
      if (writes_row_sums) staged[row(i) * T::kPitch + T::kN] = a_sums[i];
    }
    __syncthreads();
    store_staged<T>(p, shared, row0, column0, row_sums);
  }
}

/// The second kernel of a split product: adds the partial results in the order of k.
static __global__ void linear_sum_partials_kernel(const Product p, int ranges) {
  const int64_t stride = partial_floats(p.m, p.n), outputs = int64_t{p.m} * p.n;
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= outputs + (p.row_sums ? p.m : 0)) return;
  wait_for_primary();
  float sum = 0.0f;
#pragma unroll 8
  for (int range = 0; range < ranges; ++range) sum += p.partials[range * stride + i];
  if (i < outputs) {
    if (p.bias) sum += p.bias[i % p.n];
    p.c[i] = p.relu ? ReluFunction{}.forward(sum) : sum;
  } else {
    p.row_sums[i - outputs] = sum;
  }
}

}  // namespace duet::linear
