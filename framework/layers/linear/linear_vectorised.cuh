// The kernel of linear custom_vectorised, which computes the whole sum, and of custom_split_k, which
// cuts it into ranges: the register tiles of custom_thread_tiled, fed four values at a time.
//
// Slices lie in shared memory with k outer, so that a thread reads four neighbouring rows at once. An
// operand with k outer is copied as it is; one with k inner is turned on the way: a thread loads
// four k of a row and stores them to four lines.
#pragma once

#include "kernels/integers.cuh"
#include "kernels/vector.cuh"
#include "layers/linear/linear_stored_product.cuh"

namespace duet::linear {

/// 64 x 64 outputs a block, 8 x 8 a thread, 16 of k at a time.
struct VectorisedTile {
  static constexpr int kSize = 64, kDepth = 16, kSide = 8, kThreads = kSide * kSide;
  /// + 4, not 2: every line begins on 16 bytes.
  struct alignas(16) Slice {
    float line[kDepth][kSize + 4];
  };

  /// Of sum i of a thread: the tile's halves have a run of four each.
  __device__ static int place(int thread, int i) {
    return i / 4 * (kSize / 2) + thread * 4 + i % 4;
  }
};

/// Why four values of a row cannot be loaded at once, or nothing.
inline std::optional<std::string> vectorised_unsupported(const LinearProblem& problem, Pass pass) {
  if (problem.in % 4 != 0 || (pass != Pass::kForward && problem.out % 4 != 0)) {
    return "loads four values at a time, and a row does not divide into them";
  }
  return linear_tiles_unsupported(problem, pass);
}

/// Rows first_row.., k from first_k of an operand; zeros behind the last.
template <bool kInner, class T>
__device__ void copy_slice(VectorisedTile::Slice& slice, const T* matrix, int rows, int depth,
                           int first_row, int first_k) {
  using Tile = VectorisedTile;
  constexpr int kInRow = Tile::kSize / 4;
#pragma unroll
  for (int i = 0; i < Tile::kSize * Tile::kDepth / 4 / Tile::kThreads; ++i) {
    const int unit = threadIdx.x + i * Tile::kThreads;
    // region copy
    // With k inner a warp takes 8 k of 16 rows: whole sectors, and its stores touch 32 banks.
    const int k = kInner ? (unit % 2 + unit / (2 * Tile::kSize) * 2) * 4 : unit / kInRow;
    const int row = kInner ? unit / 2 % Tile::kSize : unit % kInRow * 4;
    const int64_t r = first_row + row, kk = first_k + k;
    Vector<float, 4> values = {};
    if (r < rows && kk < depth) {
      values = load_constant<4>(matrix + (kInner ? r * depth + kk : kk * rows + r));
    }
    if constexpr (kInner) {
#pragma unroll
      for (int e = 0; e < 4; ++e) slice.line[k + e][row] = values.v[e];
    } else {
      store(&slice.line[k][row], values);
    }
    // end copy
  }
}

/// Grid: (n / 64, m / 64, ranges of k), rounded up. Of several ranges each but the last is k_range long,
/// a multiple of 16; what range z computes goes to p.c and p.row_sums + z * part_stride.
template <bool kInnerA, bool kInnerB, class TA, class TB, class TC>
__global__ void __launch_bounds__(VectorisedTile::kThreads)
    linear_vectorised_kernel(StoredProduct<TA, TB, TC> p, int k_range, int64_t part_stride) {
  using Tile = VectorisedTile;
  constexpr int kSide = Tile::kSide;
  __shared__ Tile::Slice a, b;
  const int first_row = blockIdx.y * Tile::kSize, first_column = blockIdx.x * Tile::kSize;
  const int first_k = blockIdx.z * k_range, end_k = min(p.k - first_k, k_range) + first_k;
  const int row = threadIdx.x / kSide, column = threadIdx.x % kSide;
  const bool row_sums = !kInnerA && p.row_sums && blockIdx.x == 0;
  float sums[kSide][kSide] = {};
  float row_sum = 0.0f;  // of row threadIdx.x
  for (int first = first_k; first < end_k; first += Tile::kDepth) {
    copy_slice<kInnerA>(a, p.a, p.m, p.k, first_row, first);
    copy_slice<kInnerB>(b, p.b, p.n, p.k, first_column, first);
    __syncthreads();
    // region multiply
#pragma unroll
    for (int k = 0; k < Tile::kDepth; ++k) {
      Vector<float, 4> rows[2], columns[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        rows[i] = load<4>(&a.line[k][Tile::place(row, 4 * i)]);
        columns[i] = load<4>(&b.line[k][Tile::place(column, 4 * i)]);
      }
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) {
          sums[i][j] = fmaf(rows[i / 4].v[i % 4], columns[j / 4].v[j % 4], sums[i][j]);
        }
      }
    }
    // end multiply
    if (row_sums) {
#pragma unroll
      for (int k = 0; k < Tile::kDepth; ++k) row_sum += a.line[k][threadIdx.x];
    }
    __syncthreads();
  }
  TC* const result = p.c + blockIdx.z * part_stride;
#pragma unroll
  for (int j = 0; j < kSide; j += 4) {
    const int c = first_column + Tile::place(column, j);
    const int count = min(4, p.n - c);  // 1 to 3 only where rows do not divide by 4
    if (count <= 0) continue;
    Vector<float, 4> shift = {};
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      if (p.bias && e < count) shift.v[e] = p.bias[c + e];
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int r = first_row + Tile::place(row, i);
      if (r >= p.m) continue;
      TC* const to = result + int64_t{r} * p.n + c;
      Vector<float, 4> values;
#pragma unroll
      for (int e = 0; e < 4; ++e) values.v[e] = sums[i][j + e] + shift.v[e];
      if (p.n % 4 == 0) {
        store(to, values);
      } else {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (e < count) to[e] = TC(values.v[e]);
        }
      }
    }
  }
  const int summed = first_row + threadIdx.x;
  if (row_sums && summed < p.m) p.row_sums[blockIdx.z * part_stride + summed] = row_sum;
}

/// Launches it with `ranges` ranges.
template <bool kInnerA, bool kInnerB, class P>
void launch_vectorised(const P& p, int ranges, int k_range, int64_t part_stride, const Run& run) {
  constexpr int kSize = VectorisedTile::kSize;
  const dim3 grid(ceil_div(p.n, kSize), ceil_div(p.m, kSize), ranges);
  linear_vectorised_kernel<kInnerA, kInnerB>
      <<<grid, VectorisedTile::kThreads, 0, run.stream()>>>(p, k_range, part_stride);
  DUET_LAUNCHED();
}

}  // namespace duet::linear
