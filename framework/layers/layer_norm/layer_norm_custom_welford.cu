// layer_norm custom_welford: mean and variance in one walk over the row, which stays in registers;
//           backward makes dx, dweight and dbias of one look at x and dy.
// Mapping:  up to 1024 columns (backward 512) warp = 1 row, block = 8; up to 8192 block = 1 row, 256
//           threads; 4 to 32 values a thread, 16 bytes at a time where the row's length allows it.
//           Backward: as many blocks as run at once take rows in turns; a thread has the same columns of
//           each, and loads those of its next row while it sums.
// Traffic:  forward x once, y once; backward x and dy once, dx once, and two sums a column and
//           block.
// Limits:   fp32 or bf16, rows of at most 8192 values; of images nchw.
#include "device/launch.h"
#include "kernels/moments.cuh"
#include "kernels/register_rows.cuh"
#include "layers/layer_norm/layer_norm_kernels.cuh"

namespace duet {
namespace {

using namespace layer_norm;

/// Of the thread's values of a row.
template <class F>
__device__ __forceinline__ Moments moments_of(const float (&values)[F::kValues], int columns) {
  Moments m = {};
#pragma unroll
  for (int i = 0; i < F::kValues; ++i) {
    if (F::column(i) >= columns) continue;
    m.count += 1.0f;
    m.mean += values[i];
  }
  if (m.count == 0.0f) return m;
  m.mean /= m.count;
#pragma unroll
  for (int i = 0; i < F::kValues; ++i) {
    if (F::column(i) < columns) m.squares += (values[i] - m.mean) * (values[i] - m.mean);
  }
  return m;
}

template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads)
    layer_norm_forward_welford_kernel(int64_t rows, int columns, float eps, const T* x,
                                      const float* weight, const float* bias, T* y,
                                      Statistics* state) {
  wait_for_primary();
  const int64_t row = F::team();
  if (row >= rows) return;  // the whole team
  float values[F::kValues];
  F::load_row(x + row * columns, columns, 0.0f, values);
  const Moments all = F::combine_row(moments_of<F>(values, columns), joined);
  const float inverse = 1.0f / sqrtf(all.squares / static_cast<float>(columns) + eps);
#pragma unroll
  for (float& value : values) value = (value - all.mean) * inverse;
  if (weight) {
    float scale[F::kValues], shift[F::kValues];
    F::load_row(weight, columns, 0.0f, scale);
    F::load_row(bias, columns, 0.0f, shift);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) values[i] = values[i] * scale[i] + shift[i];
  }
  F::store_row(y + row * columns, columns, values);
  if (threadIdx.x % F::kThreads == 0) state[row] = {all.mean, inverse};
}

// A row of x and dy on its way to a thread.
template <class F, class T>
struct Rows {
  typename F::template Loaded<T> x, dy;
  Statistics s;

  __device__ __forceinline__ void load(int64_t row, int columns, const T* x_rows, const T* dy_rows,
                                       const Statistics* state) {
    F::load_row(x_rows + row * columns, columns, x);
    F::load_row(dy_rows + row * columns, columns, dy);
    s = state[row];
  }
};

// What there are registers for, beside the sums: the next row; the weights, which otherwise come from
// L1 for each row; and more than one block a multiprocessor.
template <class F>
constexpr bool kLoadsAhead = F::kValues <= 16;
template <class F>
constexpr bool kKeepsWeights = F::kValues <= 8;
template <class F>
constexpr int kBackwardBlocks = F::kValues <= 4    ? 4
                                : F::kValues <= 8  ? 3
                                : F::kValues <= 16 ? 2
                                                   : 1;

// `parts` and dx are null where they are not wanted.
template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads, kBackwardBlocks<F>)
    layer_norm_backward_welford_kernel(int64_t rows, int columns, const T* x, const float* weight,
                                       const T* dy, const Statistics* state, T* dx, float* parts) {
  wait_for_primary();
  const float part = 1.0f / static_cast<float>(columns);
  const int64_t step = static_cast<int64_t>(gridDim.x) * F::kRowsPerBlock;
  Sums all[F::kValues];  // of the thread's columns, over its team's rows
  float scale[F::kValues];
#pragma unroll
  for (float& each : scale) each = 1.0f;
  if (kKeepsWeights<F> && weight) F::load_row(weight, columns, 0.0f, scale);
  int64_t row = F::team();
  Rows<F, T> loaded;
  if (row < rows) loaded.load(row, columns, x, dy, state);
  for (; row < rows; row += step) {
    const Statistics s = loaded.s;
    float z[F::kValues], g[F::kValues];
    F::unpack(loaded.x, columns, s.mean, z);
    F::unpack(loaded.dy, columns, 0.0f, g);
    const bool more = row + step < rows;
    if (kLoadsAhead<F> && more) loaded.load(row + step, columns, x, dy, state);
    if (!kKeepsWeights<F> && weight) F::load_row(weight, columns, 0.0f, scale);
    Sums sums;
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) {
      z[i] = (z[i] - s.mean) * s.inverse;
      all[i] = add(all[i], {g[i], g[i] * z[i]});
      g[i] *= scale[i];
      sums = add(sums, {g[i], g[i] * z[i]});
    }
    if (dx) {
      sums = F::combine_row(sums, add);
#pragma unroll
      for (int i = 0; i < F::kValues; ++i) {
        g[i] = (g[i] - sums.dy * part - z[i] * (sums.product * part)) * s.inverse;
      }
      F::store_row(dx + row * columns, columns, g);
    }
    if (!kLoadsAhead<F> && more) loaded.load(row + step, columns, x, dy, state);
  }
  if (!parts) return;
#pragma unroll
  for (int i = 0; i < F::kValues; ++i) {
    if (F::kRowsPerBlock > 1) all[i] = block_combine(all[i], F::kThreads, add);
    if (threadIdx.x < F::kThreads && F::column(i) < columns) {
      keep_part(parts, columns, F::column(i), all[i]);
    }
  }
}

template <class T>
class LayerNormCustomWelford : public LayerNormImpl {
 public:
  using LayerNormImpl::LayerNormImpl;

  size_t state_bytes() const override { return problem_.rows() * sizeof(Statistics); }
  size_t workspace_bytes(Pass pass) const override {
    if (pass == Pass::kForward || !problem_.affine) return 0;
    size_t bytes = 0;
    with_backward_form([&](auto form) { bytes = parts_bytes(blocks(form), problem_.columns()); });
    return bytes;
  }
  std::string detail(Pass pass) const override {
    std::string text;
    const auto take = [&](auto form) { text = form.text(); };
    pass == Pass::kForward ? with_form(take) : with_backward_form(take);
    return text;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const Tensor& y, const Tensor& state) override {
    with_form([&](auto form) {
      using F = decltype(form);
      launch_following({form.blocks(problem_.rows()), kCombineThreads, 0, run.stream()},
                       layer_norm_forward_welford_kernel<F, T>, problem_.rows(), columns(),
                       static_cast<float>(problem_.eps), x.data<T>(), weight.data<float>(),
                       bias.data<float>(), y.data<T>(), state.data<Statistics>());
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& weight, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const Tensor& dweight,
                const Tensor& dbias) override {
    with_backward_form([&](auto form) {
      using F = decltype(form);
      launch_following({static_cast<unsigned>(blocks(form)), kCombineThreads, 0, run.stream()},
                       layer_norm_backward_welford_kernel<F, T>, problem_.rows(), columns(),
                       x.data<T>(), weight.data<float>(), dy.data<T>(), state.data<Statistics>(),
                       dx.data<T>(), dweight ? static_cast<float*>(run.workspace) : nullptr);
      if (dweight) add_parts(run, blocks(form), problem_.columns(), dweight, dbias);
    });
  }

 private:
  int columns() const { return static_cast<int>(problem_.columns()); }
  template <class Visit>
  void with_form(Visit&& visit) const {
    with_register_row<T>(problem_.columns(), visit);
  }
  /// A warp has not enough registers for rows of 1024 and their sums.
  template <class Visit>
  void with_backward_form(Visit&& visit) const {
    if (columns() <= 512 || columns() > 4 * kCombineThreads) return with_form(visit);
    columns() % 4 == 0 ? visit(RegisterRow<kCombineThreads, 4, 4>())
                       : visit(RegisterRow<kCombineThreads, 4, 1>());
  }
  template <class F>
  int64_t blocks(F) const {
    return blocks_for(problem_.rows(), F::kRowsPerBlock, kBackwardBlocks<F>);
  }
};

std::optional<std::string> unsupported(const LayerNormProblem& problem, Pass pass) {
  if (problem.columns() > kLongestRegisterRow) {
    return "keeps a row in registers: at most " + std::to_string(kLongestRegisterRow) +
           " values, not " + std::to_string(problem.columns());
  }
  return layout_unsupported(problem, pass);
}

}  // namespace

ImplEntry<LayerNormProblem> layer_norm_custom_welford() {
  auto entry = gpu_entry<LayerNormCustomWelford>("custom_welford", unsupported);
  entry.shared = true;
  return entry;
}

}  // namespace duet
