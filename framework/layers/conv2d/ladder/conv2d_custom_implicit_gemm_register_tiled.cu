// conv2d custom_implicit_gemm_register_tiled: gathered tiles as custom_implicit_gemm_tiled has them, and
//           of each a smaller tile in the registers of a thread.
// Mapping:  block = 64 filters (or channels) x 64 positions (or taps), 64 threads; thread = 8x8 sums,
//           rows and columns 8 apart. 16 of k at a time; what a gather computes for a row is kept
//           in shared memory, once a block, what it computes for a k once a slice.
// Traffic:  x (or dy) is gathered once for each 64 filters, the weights are read once for each 64
//           positions; 16 loads from shared memory feed 64 multiply-adds.
// Limits:   fp32 or bf16 (products and sums in fp32 alike), nchw, groups = 1, 32-bit element numbers,
//           padded height and width below 16384.
#include "layers/conv2d/mma/conv2d_plane_product.cuh"

namespace duet {
namespace {

constexpr int kTile = 64, kDepth = 16;
constexpr int kSide = 8;  // threads along a tile, and sums of a thread along each side
constexpr int kThreads = kSide * kSide;
constexpr int kBlocks = 8;  // a multiprocessor: 128 registers a thread
static_assert(kThreads == kTile && 2 * kDepth <= kThreads);

/// + 2: what a warp stores, 16 k of two rows or 32 rows of one k, stands in 32 banks.
using Slice = float[kDepth][kTile + 2];

/// Lanes run along what is contiguous in memory.
template <class Gather>
__device__ void gather_slice(const Gather& gather, const typename Gather::Row* rows,
                             const typename Gather::Col* cols, Slice& slice) {
#pragma unroll 8  // loads under way; all 16 of them would spill registers
  for (int i = 0; i < kTile * kDepth / kThreads; ++i) {
    const int unit = threadIdx.x + i * kThreads;
    const int row = Gather::kRowLanes ? unit % kTile : unit / kDepth;
    const int k = Gather::kRowLanes ? unit / kTile : unit % kDepth;
    slice[k][row] = float(gathered(gather, rows[row], cols[k]));
  }
}

template <class A, class B, class TC>
__global__ void __launch_bounds__(kThreads, kBlocks)
    conv2d_register_tiled_product_kernel(const __grid_constant__ A a, const __grid_constant__ B b,
                                         PlaneProduct<TC> product) {
  __shared__ Slice slice_a, slice_b;
  __shared__ typename A::Row rows_a[kTile];
  __shared__ typename B::Row rows_b[kTile];
  __shared__ typename A::Col cols_a[kDepth];
  __shared__ typename B::Col cols_b[kDepth];
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int thread = threadIdx.x, row = thread / kSide, column = thread % kSide;
  const bool row_sums = product.row_sums && blockIdx.x == 0;
  float sums[kSide][kSide] = {};
  float row_sum = 0.0f;  // of row `thread`
  // region slice
  rows_a[thread] = a.row(first_row + thread);
  rows_b[thread] = b.row(first_column + thread);
  for (int first = 0; first < product.k; first += kDepth) {
    const int k = first + thread % kDepth, inside = k < product.k ? k : -1;
    if (thread < kDepth) cols_a[thread] = a.col(inside);
    if (thread / kDepth == 1) cols_b[thread - kDepth] = b.col(inside);
    __syncthreads();
    gather_slice(a, rows_a, cols_a, slice_a);
    gather_slice(b, rows_b, cols_b, slice_b);
    __syncthreads();
    // end slice
#pragma unroll
    for (int kk = 0; kk < kDepth; ++kk) {
      float fa[kSide], fb[kSide];
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
        fa[i] = slice_a[kk][row + i * kSide];
        fb[i] = slice_b[kk][column + i * kSide];
      }
#pragma unroll
      for (int i = 0; i < kSide; ++i) {
#pragma unroll
        for (int j = 0; j < kSide; ++j) sums[i][j] = fmaf(fa[i], fb[j], sums[i][j]);
      }
    }
    if (row_sums) {
#pragma unroll
      for (int kk = 0; kk < kDepth; ++kk) row_sum += slice_a[kk][thread];
    }
  }
#pragma unroll
  for (int j = 0; j < kSide; ++j) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      product.store(first_row + row + i * kSide, first_column + column + j * kSide, sums[i][j]);
    }
  }
  if (row_sums && first_row + thread < product.m) product.row_sums[first_row + thread] = row_sum;
}

template <class T>
class Conv2dCustomImplicitGemmRegisterTiled
    : public PlaneProductImpl<T, Conv2dCustomImplicitGemmRegisterTiled<T>> {
 public:
  using PlaneProductImpl<T, Conv2dCustomImplicitGemmRegisterTiled>::PlaneProductImpl;

  template <class A, class B, class TC>
  void multiply(const A& a, const B& b, const PlaneProduct<TC>& product, const Run& run) {
    const dim3 grid(ceil_div(product.n, kTile), ceil_div(product.m, kTile));
    conv2d_register_tiled_product_kernel<<<grid, kThreads, 0, run.stream()>>>(a, b, product);
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm_register_tiled() {
  return gpu_entry<Conv2dCustomImplicitGemmRegisterTiled>("custom_implicit_gemm_register_tiled",
                                                          plane_product_unsupported);
}

}  // namespace duet
