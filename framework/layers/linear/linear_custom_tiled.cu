// linear custom_tiled: the naive kernel's outputs, computed by tiles that a block shares.
// Mapping:  block = 32x32 outputs and as many threads; 32 of k at a time, a thread brings one
//           element of each operand to shared memory, then reads 32 + 32 that others brought.
// Traffic:  an operand is read once for each 32 of the other side's rows instead of once a row, and
//           always along its inner dimension; now 2 shared-memory loads an FMA are the limit.
// Limits:   fp32 or bf16, up to 2097120 rows.
#include "layers/linear/linear_stored_product.cuh"

namespace duet {
namespace {

constexpr int kTile = 32;

/// One element of an operand's 32 x 32 tile for each thread: rows first_row.., k from first_k. In
/// global memory k is the inner dimension (kInner) or the outer one; threads walk the inner.
template <bool kInner, class T>
__device__ void copy_tile(float (&tile)[kTile][kTile + 1], const T* matrix, int rows, int depth,
                          int first_row, int first_k) {
  // region copy
  const int row = kInner ? threadIdx.y : threadIdx.x, k = kInner ? threadIdx.x : threadIdx.y;
  const int64_t r = first_row + row, kk = first_k + k;
  const bool inside = r < rows && kk < depth;
  tile[row][k] = inside ? float(matrix[kInner ? r * depth + kk : kk * rows + r]) : 0.0f;
  // end copy
}

/// Row sums are the product with one more column of B, all ones.
template <bool kInnerA, bool kInnerB, class TA, class TB, class TC>
__global__ void __launch_bounds__(kTile* kTile)
    linear_tiled_kernel(linear::StoredProduct<TA, TB, TC> p) {
  // region loop
  __shared__ float a[kTile][kTile + 1];  // + 1: a column's elements stand in 32 banks
  __shared__ float b[kTile][kTile + 1];  // [column][k]
  const int row = blockIdx.y * kTile + threadIdx.y, column = blockIdx.x * kTile + threadIdx.x;
  const bool ones = p.row_sums && column == p.n;
  float sum = 0.0f;
  for (int first = 0; first < p.k; first += kTile) {
    copy_tile<kInnerA>(a, p.a, p.m, p.k, blockIdx.y * kTile, first);
    copy_tile<kInnerB>(b, p.b, p.n, p.k, blockIdx.x * kTile, first);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      sum = fmaf(a[threadIdx.y][k], ones ? 1.0f : b[threadIdx.x][k], sum);
    }
    __syncthreads();
  }
  // end loop
  if (row >= p.m) return;
  if (column < p.n) {
    p.c[int64_t{row} * p.n + column] = TC(p.bias ? sum + p.bias[column] : sum);
  } else if (ones) {
    p.row_sums[row] = sum;
  }
}

template <class T>
class LinearCustomTiled : public linear::StoredProductImpl<T, LinearCustomTiled<T>> {
 public:
  using linear::StoredProductImpl<T, LinearCustomTiled>::StoredProductImpl;

  template <bool kInnerA, bool kInnerB, class P>
  void multiply(const P& p, const Run& run) {
    const int64_t columns = int64_t{p.n} + (p.row_sums ? 1 : 0);
    const dim3 grid(static_cast<unsigned>((columns + kTile - 1) / kTile),
                    (p.m + kTile - 1) / kTile);
    linear_tiled_kernel<kInnerA, kInnerB><<<grid, dim3(kTile, kTile), 0, run.stream()>>>(p);
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_tiled() {
  return gpu_entry<LinearCustomTiled>("custom_tiled", linear_tiles_unsupported);
}

}  // namespace duet
