// linear custom_coalesced: the naive product, its threads arranged so that the lanes of a warp read
//           neighbours in memory, in all passes.
// Mapping:  forward, whose operands both have k inner: warp = 1 y, its lanes take every 32nd k and
//           add up by shuffles. Backward passes, whose right operand has k outer: thread = 1 dx or
//           dw, lanes = neighbouring columns, as in custom_naive; the bias gradient is one column
//           more. Block = 256 threads.
// Traffic:  every operand is still read once an output. A load of a warp takes at most 5 sectors of
//           32 bytes; of w in custom_naive's forward it takes 32.
// Limits:   fp32 or bf16, any size.
#include "layers/linear/linear_stored_product.cuh"

namespace duet {
namespace {

constexpr int kThreads = 256;

__device__ int64_t global_thread() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

/// k inner in both operands.
template <class TA, class TB, class TC>
__global__ void __launch_bounds__(kThreads)
    linear_rows_kernel(linear::StoredProduct<TA, TB, TC> p) {
  const int64_t index = global_thread() / 32, row = index / p.n, column = index % p.n;
  if (row >= p.m) return;  // the whole warp
  const int lane = threadIdx.x % 32;
  const TA* const a = p.a + row * p.k;
  const TB* const b = p.b + column * p.k;
  float sum = 0.0f;
  // region dot
  for (int64_t k = lane; k < p.k; k += 32) sum = fmaf(float(a[k]), float(b[k]), sum);
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  }
  // end dot
  if (lane == 0) p.c[index] = TC(p.bias ? sum + p.bias[column] : sum);
}

/// k outer in B.
template <bool kInnerA, class TA, class TB, class TC>
__global__ void __launch_bounds__(kThreads)
    linear_columns_kernel(linear::StoredProduct<TA, TB, TC> p) {
  const int64_t columns = int64_t{p.n} + (p.row_sums ? 1 : 0);
  const int64_t row = global_thread() / columns, column = global_thread() % columns;
  if (row >= p.m) return;
  const bool ones = column == p.n;
  float sum = 0.0f;
  for (int64_t k = 0; k < p.k; ++k) {
    const float a = float(p.a[kInnerA ? row * p.k + k : k * p.m + row]);
    sum = fmaf(a, ones ? 1.0f : float(p.b[k * p.n + column]), sum);
  }
  if (ones) {
    p.row_sums[row] = sum;
  } else {
    p.c[row * p.n + column] = TC(sum);
  }
}

template <class T>
class LinearCustomCoalesced : public linear::StoredProductImpl<T, LinearCustomCoalesced<T>> {
 public:
  using linear::StoredProductImpl<T, LinearCustomCoalesced>::StoredProductImpl;

  template <bool kInnerA, bool kInnerB, class P>
  void multiply(const P& p, const Run& run) {
    if constexpr (kInnerB) {
      linear_rows_kernel<<<blocks(int64_t{p.m} * p.n * 32), kThreads, 0, run.stream()>>>(p);
    } else {
      const int64_t threads = int64_t{p.m} * (int64_t{p.n} + (p.row_sums ? 1 : 0));
      linear_columns_kernel<kInnerA><<<blocks(threads), kThreads, 0, run.stream()>>>(p);
    }
    DUET_LAUNCHED();
  }

 private:
  static unsigned blocks(int64_t threads) {
    return static_cast<unsigned>((threads + kThreads - 1) / kThreads);
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_custom_coalesced() {
  return gpu_entry<LinearCustomCoalesced>("custom_coalesced");
}

}  // namespace duet
