// conv2d custom_implicit_gemm_tiled: the im2col matrix is never stored; 32x32 tiles of it are gathered
//           on the way to shared memory.
// Mapping:  block = 32 filters (or channels) x 32 positions (or taps) and as many threads, thread =
//           1 y, dx or dw. 32 of k at a time: a thread gathers one element of each operand, then
//           reads 32 + 32 that others gathered.
// Traffic:  x (or dy) is gathered once for each 32 filters, the weights are read once for each 32
//           positions; a multiply-add needs two loads from shared memory.
// Limits:   fp32 or bf16 (products and sums in fp32 alike), nchw, groups = 1, 32-bit element numbers,
//           padded height and width below 16384.
#include "layers/conv2d/mma/conv2d_plane_product.cuh"

namespace duet {
namespace {

constexpr int kTile = 32;

/// Row sums are the product with one more column of B, all ones.
template <class A, class B, class TC>
__global__ void __launch_bounds__(kTile* kTile)
    conv2d_tiled_product_kernel(const __grid_constant__ A a, const __grid_constant__ B b,
                                PlaneProduct<TC> product) {
  __shared__ float tile_a[kTile][kTile + 1];  // [row][k]; + 1: a column stands in 32 banks
  __shared__ float tile_b[kTile][kTile + 1];  // [column][k]
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int row = first_row + threadIdx.y, column = first_column + threadIdx.x;
  const bool ones = product.row_sums && column == product.n;
  // region tile
  // Lanes run along what is contiguous in memory. A thread always gathers from the same two rows.
  const int row_a = A::kRowLanes ? threadIdx.x : threadIdx.y;
  const int row_b = B::kRowLanes ? threadIdx.x : threadIdx.y;
  const int k_a = A::kRowLanes ? threadIdx.y : threadIdx.x;
  const int k_b = B::kRowLanes ? threadIdx.y : threadIdx.x;
  const typename A::Row from_a = a.row(first_row + row_a);
  const typename B::Row from_b = b.row(first_column + row_b);
  float sum = 0.0f;
  for (int first = 0; first < product.k; first += kTile) {
    const auto inside = [&](int k) { return first + k < product.k ? first + k : -1; };
    tile_a[row_a][k_a] = float(gathered(a, from_a, a.col(inside(k_a))));
    tile_b[row_b][k_b] = float(gathered(b, from_b, b.col(inside(k_b))));
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) {
      sum = fmaf(tile_a[threadIdx.y][k], ones ? 1.0f : tile_b[threadIdx.x][k], sum);
    }
    __syncthreads();
  }
  // end tile
  product.store(row, column, sum);
  if (ones && row < product.m) product.row_sums[row] = sum;
}

template <class T>
class Conv2dCustomImplicitGemmTiled : public PlaneProductImpl<T, Conv2dCustomImplicitGemmTiled<T>> {
 public:
  using PlaneProductImpl<T, Conv2dCustomImplicitGemmTiled>::PlaneProductImpl;

  template <class A, class B, class TC>
  void multiply(const A& a, const B& b, const PlaneProduct<TC>& product, const Run& run) {
    const int columns = product.n + (product.row_sums ? 1 : 0);
    const dim3 grid(ceil_div(columns, kTile), ceil_div(product.m, kTile));
    conv2d_tiled_product_kernel<<<grid, dim3(kTile, kTile), 0, run.stream()>>>(a, b, product);
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm_tiled() {
  return gpu_entry<Conv2dCustomImplicitGemmTiled>("custom_implicit_gemm_tiled",
                                                  plane_product_unsupported);
}

}  // namespace duet
