// linear custom_thread_tiled: tiles in shared memory as custom_tiled has them, and of each a smaller
//           tile in the registers of a thread.
// Mapping:  block = 64x64 outputs, 64 threads; thread = 8x8 sums, rows and columns 8 apart, so that
//           lanes read neighbours in shared memory and write neighbours of C. 16 of k at a time.
// Traffic:  an operand is read once for each 64 of the other side's rows; from shared memory 16
//           loads of 4 bytes feed 64 multiply-adds, where custom_tiled loads two for each.
// Limits:   fp32 or bf16, up to 2097120 rows.
#include "kernels/integers.cuh"
#include "layers/linear/linear_stored_product.cuh"

namespace duet {
namespace {

constexpr int kTile = 64, kDepth = 16;
constexpr int kSide = 8;  // threads along a tile, and sums of a thread along each side
constexpr int kThreads = kSide * kSide;
constexpr int kBlocks = 8;  // a multiprocessor: 128 registers a thread
static_assert(kSide * kSide == kTile);

/// + 2: what a warp stores, 16 k of two rows or 32 rows of one k, stands in 32 banks.
using Slice = float[kDepth][kTile + 2];

/// Rows first_row.., k from first_k of an operand. In global memory k is the inner dimension (kInner)
/// or the outer one; threads walk the inner.
template <bool kInner, class T>
__device__ void copy_slice(Slice& slice, const T* matrix, int rows, int depth, int first_row,
                           int first_k) {
#pragma unroll 8  // loads under way; all 16 of them would spill registers
  for (int i = 0; i < kTile * kDepth / kThreads; ++i) {
    const int unit = threadIdx.x + i * kThreads;
    const int row = kInner ? unit / kDepth : unit % kTile;
    const int k = kInner ? unit % kDepth : unit / kTile;
    const int64_t r = first_row + row, kk = first_k + k;
    const bool inside = r < rows && kk < depth;
    slice[k][row] = inside ? float(matrix[kInner ? r * depth + kk : kk * rows + r]) : 0.0f;
  }
}

template <bool kInnerA, bool kInnerB, class TA, class TB, class TC>
__global__ void __launch_bounds__(kThreads, kBlocks)
    linear_thread_tiled_kernel(linear::StoredProduct<TA, TB, TC> p) {
  __shared__ Slice a, b;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int row = threadIdx.x / kSide, column = threadIdx.x % kSide;
  const bool row_sums = !kInnerA && p.row_sums && blockIdx.x == 0;
  float sums[kSide][kSide] = {};
  float row_sum = 0.0f;  // of row threadIdx.x
  for (int first = 0; first < p.k; first += kDepth) {
    copy_slice<kInnerA>(a, p.a, p.m, p.k, first_row, first);
    copy_slice<kInnerB>(b, p.b, p.n, p.k, first_column, first);
    __syncthreads();
    // region multiply
#pragma unroll
    for (int k = 0; k < kDepth; ++k) {
      float rows[kSide], columns[kSide];
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        rows[i] = a[k][row + i * kSide];
        columns[i] = b[k][column + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) sums[i][j] = fmaf(rows[i], columns[j], sums[i][j]);
      }
    }
    // end multiply
    if (row_sums) {
#pragma unroll
      for (int k = 0; k < kDepth; ++k) row_sum += a[k][threadIdx.x];
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < kSide; ++j) {
    const int c = first_column + column + j * kSide;
    if (c >= p.n) continue;
    const float shift = p.bias ? p.bias[c] : 0.0f;
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int r = first_row + row + i * kSide;
      if (r < p.m) p.c[int64_t{r} * p.n + c] = TC(sums[i][j] + shift);
    }
  }
  const int summed = first_row + threadIdx.x;
  if (row_sums && summed < p.m) p.row_sums[summed] = row_sum;
}

template <class T>
class LinearCustomThreadTiled : public linear::StoredProductImpl<T, LinearCustomThreadTiled<T>> {
 public:
  using linear::StoredProductImpl<T, LinearCustomThreadTiled>::StoredProductImpl;

  template <bool kInnerA, bool kInnerB, class P>
  void multiply(const P& p, const Run& run) {
    const dim3 grid(ceil_div(p.n, kTile), ceil_div(p.m, kTile));
    linear_thread_tiled_kernel<kInnerA, kInnerB><<<grid, kThreads, 0, run.stream()>>>(p);
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_thread_tiled() {
  return gpu_entry<LinearCustomThreadTiled>("custom_thread_tiled", linear_tiles_unsupported);
}

}  // namespace duet
