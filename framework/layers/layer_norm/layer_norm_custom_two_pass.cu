// layer_norm custom_two_pass: the definition: a block walks its row for the mean, again for the
//           squares of what differs from it, and again for y.
// Mapping:  block = 1 row, 256 threads; of dweight and dbias block = 256 columns x a share of the
//           rows, thread = 1 column.
// Traffic:  forward x three times, the second and third time from a cache, y once; backward x and
//           dy three times, two of them from DRAM, dx once.
// Limits:   fp32 or bf16, any row; of images nchw.
#include "kernels/block_combine.cuh"
#include "layers/layer_norm/layer_norm_kernels.cuh"

namespace duet {
namespace {

using namespace layer_norm;

constexpr int kThreads = kCombineThreads;

__device__ __forceinline__ float plus(float a, float b) { return a + b; }

template <class T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_forward_two_pass_kernel(int columns, float eps, const T* x, const float* weight,
                                       const float* bias, T* y, Statistics* state) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
  float sum = 0.0f, squares = 0.0f;
  for (int j = threadIdx.x; j < columns; j += kThreads) sum += x[start + j];
  const float mean = block_combine(sum, 1, plus) / static_cast<float>(columns);
  for (int j = threadIdx.x; j < columns; j += kThreads) {
    const float difference = x[start + j] - mean;
    squares += difference * difference;
  }
  const float var = block_combine(squares, 1, plus) / static_cast<float>(columns);
  const float inverse = 1.0f / sqrtf(var + eps);
  for (int j = threadIdx.x; j < columns; j += kThreads) {
    const float z = (x[start + j] - mean) * inverse;
    y[start + j] = T(weight ? z * weight[j] + bias[j] : z);
  }
  if (threadIdx.x == 0) state[blockIdx.x] = {mean, inverse};
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_backward_two_pass_kernel(int columns, const T* x, const float* weight, const T* dy,
                                        const Statistics* state, T* dx) {
  const int64_t start = static_cast<int64_t>(blockIdx.x) * columns;
  const Statistics s = state[blockIdx.x];
  const auto z = [&](int j) { return (x[start + j] - s.mean) * s.inverse; };
  const auto g = [&](int j) { return weight ? dy[start + j] * weight[j] : float{dy[start + j]}; };
  Sums sums;
  for (int j = threadIdx.x; j < columns; j += kThreads) sums = add(sums, {g(j), g(j) * z(j)});
  sums = block_combine(sums, 1, add);
  const float part = 1.0f / static_cast<float>(columns);
  for (int j = threadIdx.x; j < columns; j += kThreads) {
    dx[start + j] = T((g(j) - sums.dy * part - z(j) * (sums.product * part)) * s.inverse);
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    layer_norm_parameters_two_pass_kernel(int64_t rows, int columns, const T* x, const T* dy,
                                          const Statistics* state, float* parts) {
  const int j = blockIdx.y * kThreads + threadIdx.x;
  if (j >= columns) return;
  Sums sums;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const float gradient = dy[row * columns + j];
    const float z = (x[row * columns + j] - state[row].mean) * state[row].inverse;
    sums = add(sums, {gradient, gradient * z});
  }
  keep_part(parts, columns, j, sums);
}

template <class T>
class LayerNormCustomTwoPass : public LayerNormImpl {
 public:
  using LayerNormImpl::LayerNormImpl;

  size_t state_bytes() const override { return problem_.rows() * sizeof(Statistics); }
  size_t workspace_bytes(Pass pass) const override {
    const bool sums = pass == Pass::kBackward && problem_.affine;
    return sums ? parts_bytes(splits(), problem_.columns()) : 0;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const Tensor& y, const Tensor& state) override {
    layer_norm_forward_two_pass_kernel<<<rows(), kThreads, 0, run.stream()>>>(
        columns(), static_cast<float>(problem_.eps), x.data<T>(), weight.data<float>(),
        bias.data<float>(), y.data<T>(), state.data<Statistics>());
    DUET_LAUNCHED();
  }

  void backward(const Run& run, const Tensor& x, const Tensor& weight, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const Tensor& dweight,
                const Tensor& dbias) override {
    if (dx) {
      layer_norm_backward_two_pass_kernel<<<rows(), kThreads, 0, run.stream()>>>(
          columns(), x.data<T>(), weight.data<float>(), dy.data<T>(), state.data<Statistics>(),
          dx.data<T>());
      DUET_LAUNCHED();
    }
    if (!dweight) return;
    const dim3 grid(static_cast<unsigned>(splits()), column_blocks());
    layer_norm_parameters_two_pass_kernel<<<grid, kThreads, 0, run.stream()>>>(
        problem_.rows(), columns(), x.data<T>(), dy.data<T>(), state.data<Statistics>(),
        static_cast<float*>(run.workspace));
    DUET_LAUNCHED();
    add_parts(run, splits(), problem_.columns(), dweight, dbias);
  }

 private:
  unsigned rows() const { return static_cast<unsigned>(problem_.rows()); }
  int columns() const { return static_cast<int>(problem_.columns()); }
  unsigned column_blocks() const {
    return static_cast<unsigned>((problem_.columns() + kThreads - 1) / kThreads);
  }
  /// Of the rows.
  int64_t splits() const {
    return blocks_for(problem_.rows(), std::max<int64_t>(16, column_blocks()), 4);
  }
};

std::optional<std::string> unsupported(const LayerNormProblem& problem, Pass pass) {
  if (problem.columns() > int64_t{65535} * kThreads) return "takes rows of fewer than 2^24 values";
  return layout_unsupported(problem, pass);
}

}  // namespace

ImplEntry<LayerNormProblem> layer_norm_custom_two_pass() {
  auto entry = gpu_entry<LayerNormCustomTwoPass>("custom_two_pass", unsupported);
  entry.shared = true;
  return entry;
}

}  // namespace duet
