// conv2d custom_implicit_gemm_double_buffered: the next slice is gathered while this one is multiplied,
//           and shared memory is read 16 bytes at a time.
// Mapping:  block = 64 filters (or channels) x 64 positions (or taps), 64 threads; thread = 8x8 sums,
//           in runs of four rows and four columns. Two slices of 8 k: one is multiplied, the other
//           is gathered into registers, and stored when that is done.
// Traffic:  as custom_implicit_gemm_register_tiled; 4 loads from shared memory feed 64 multiply-adds,
//           and a slice takes one barrier, not two.
// Limits:   fp32 or bf16 (products and sums in fp32 alike), nchw, groups = 1, 32-bit element numbers,
//           padded height and width below 16384.
#include "layers/conv2d/mma/conv2d_plane_product.cuh"

namespace duet {
namespace {

constexpr int kTile = 64, kDepth = 8;
constexpr int kSide = 8;  // threads along a tile, and sums of a thread along each side
constexpr int kThreads = kSide * kSide;
static_assert(kThreads == kTile && 2 * kDepth <= kThreads);

/// + 4: every line begins on 16 bytes, and what a warp stores, 8 k of four rows or 32 rows of one k,
/// stands in 32 banks.
struct alignas(16) Slice {
  float line[kDepth][kTile + 4];
};

/// Of sum i of a thread: the tile's halves have a run of four each.
__device__ int place(int thread, int i) { return i / 4 * (kTile / 2) + thread * 4 + i % 4; }

/// An operand: what its gather computes for rows and for the k of two slices, and two slices.
template <class Gather>
struct Operand {
  typename Gather::Row rows[kTile];
  typename Gather::Col cols[2][kDepth];
  Slice slices[2];
};

/// A thread's part of a slice, between its gathering and its storing. Lanes run along what is
/// contiguous in memory.
template <class Gather>
struct Fetched {
  static constexpr int kCount = kTile * kDepth / kThreads;
  typename Gather::Value values[kCount];

  __device__ static int row(int i) {
    const int unit = threadIdx.x + i * kThreads;
    return Gather::kRowLanes ? unit % kTile : unit / kDepth;
  }
  __device__ static int k(int i) {
    const int unit = threadIdx.x + i * kThreads;
    return Gather::kRowLanes ? unit / kTile : unit % kDepth;
  }
  __device__ void fetch(const Gather& gather, const Operand<Gather>& from, int buffer) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = gathered(gather, from.rows[row(i)], from.cols[buffer][k(i)]);
    }
  }
  __device__ void store(Slice& slice) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) slice.line[k(i)][row(i)] = float(values[i]);
  }
};

__device__ void multiply_slices(const Slice& a, const Slice& b, float (&sums)[kSide][kSide]) {
  const int row = threadIdx.x / kSide, column = threadIdx.x % kSide;
#pragma unroll
  for (int k = 0; k < kDepth; ++k) {
    Vector<float, 4> fa[2], fb[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      fa[i] = load<4>(&a.line[k][place(row, 4 * i)]);
      fb[i] = load<4>(&b.line[k][place(column, 4 * i)]);
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        sums[i][j] = fmaf(fa[i / 4].v[i % 4], fb[j / 4].v[j % 4], sums[i][j]);
      }
    }
  }
}

__device__ float sum_of_row(const Slice& slice, int row) {
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kDepth; ++k) sum += slice.line[k][row];
  return sum;
}

template <class A, class B, class TC>
__global__ void __launch_bounds__(kThreads)
    conv2d_double_buffered_product_kernel(const __grid_constant__ A a, const __grid_constant__ B b,
                                          PlaneProduct<TC> product) {
  __shared__ Operand<A> operand_a;
  __shared__ Operand<B> operand_b;
  const int first_row = blockIdx.y * kTile, first_column = blockIdx.x * kTile;
  const int thread = threadIdx.x;
  const bool row_sums = product.row_sums && blockIdx.x == 0;
  const int steps = ceil_div(product.k, kDepth);
  Fetched<A> fetched_a;
  Fetched<B> fetched_b;
  const auto write_cols = [&](int step) {
    const int k = step * kDepth + thread % kDepth, inside = k < product.k ? k : -1;
    if (thread < kDepth) operand_a.cols[step % 2][thread] = a.col(inside);
    if (thread / kDepth == 1) operand_b.cols[step % 2][thread - kDepth] = b.col(inside);
  };
  const auto fetch = [&](int step) {
    fetched_a.fetch(a, operand_a, step % 2);
    fetched_b.fetch(b, operand_b, step % 2);
  };
  const auto store = [&](int step) {
    fetched_a.store(operand_a.slices[step % 2]);
    fetched_b.store(operand_b.slices[step % 2]);
  };
  operand_a.rows[thread] = a.row(first_row + thread);
  operand_b.rows[thread] = b.row(first_column + thread);
  write_cols(0);
  write_cols(1);
  __syncthreads();
  fetch(0);
  store(0);
  __syncthreads();

  float sums[kSide][kSide] = {};
  float row_sum = 0.0f;  // of row `thread`
  // region steps
  for (int step = 0; step < steps; ++step) {
    const Slice &slice_a = operand_a.slices[step % 2], &slice_b = operand_b.slices[step % 2];
    if (step + 1 < steps) fetch(step + 1);
    write_cols(step + 2);
    multiply_slices(slice_a, slice_b, sums);
    if (step + 1 < steps) store(step + 1);
    if (row_sums) row_sum += sum_of_row(slice_a, thread);
    __syncthreads();
  }
  // end steps
  const int row = thread / kSide, column = thread % kSide;
#pragma unroll
  for (int j = 0; j < kSide; ++j) {
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      product.store(first_row + place(row, i), first_column + place(column, j), sums[i][j]);
    }
  }
  if (row_sums && first_row + thread < product.m) product.row_sums[first_row + thread] = row_sum;
}

template <class T>
class Conv2dCustomImplicitGemmDoubleBuffered
    : public PlaneProductImpl<T, Conv2dCustomImplicitGemmDoubleBuffered<T>> {
 public:
  using PlaneProductImpl<T, Conv2dCustomImplicitGemmDoubleBuffered>::PlaneProductImpl;

  template <class A, class B, class TC>
  void multiply(const A& a, const B& b, const PlaneProduct<TC>& product, const Run& run) {
    const dim3 grid(ceil_div(product.n, kTile), ceil_div(product.m, kTile));
    conv2d_double_buffered_product_kernel<<<grid, kThreads, 0, run.stream()>>>(a, b, product);
    DUET_LAUNCHED();
  }
};

}  // namespace

ImplEntry<Conv2dProblem> conv2d_custom_implicit_gemm_double_buffered() {
  return gpu_entry<Conv2dCustomImplicitGemmDoubleBuffered>("custom_implicit_gemm_double_buffered",
                                                           plane_product_unsupported);
}

}  // namespace duet
