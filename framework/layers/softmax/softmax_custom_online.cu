// softmax custom_online: one walk finds maximum and sum together. Each thread has the exponentials
//           of its own values, below its own maximum; such parts are joined by scaling those with
//           a smaller maximum down (M. Milakov, N. Gimelshein: Online normalizer calculation for
//           softmax, 2018). The row stays in registers, so that the quotients need no more reads
//           and no more exponentials, but for one a thread.
// Mapping:  up to 1024 columns warp = 1 row, block = 8; longer block = 1 row, 256 threads; 8 to 32
//           values a thread, 16 bytes at a time where the row's length allows it, else one by one.
// Traffic:  forward x once, y once; backward y (in bf16 x) and dy once, dx once. Rows beyond 8192
//           values are read a second time (in bf16 backward x a third time).
// Limits:   fp32 or bf16, any rank; of images nchw.
#include "device/check.h"
#include "device/launch.h"
#include "layers/softmax/softmax.h"
#include "layers/softmax/softmax_rows.cuh"

namespace duet {
namespace {

using softmax_rows::RowSoftmax;

/// As RowSoftmax, of a row that is stored in full.
template <class F>
struct StoredRow {
  const float* y;
  int columns;
  float values[F::kValues];

  __device__ __forceinline__ StoredRow(const float* row, int count) : y(row), columns(count) {}
  __device__ __forceinline__ void evaluate(int begin) {
    F::load_row(y + begin, columns - begin, 0.0f, values);
  }
};

template <class F, class T>
__global__ void __launch_bounds__(kCombineThreads)
    softmax_forward_online_kernel(int64_t rows, int columns, const T* x, T* y) {
  wait_for_primary();
  const int64_t row = F::team();
  if (row >= rows) return;  // the whole team
  RowSoftmax<F, T> softmax(x + row * columns, columns);
  F::for_each_piece(columns, [&](int begin) {
    softmax.evaluate(begin);
    F::store_row(y + row * columns + begin, columns - begin, softmax.values);
  });
}

template <class F, class T, class Row>
__global__ void __launch_bounds__(kCombineThreads)
    softmax_backward_online_kernel(int64_t rows, int columns, const T* from, const T* dy, T* dx) {
  wait_for_primary();
  const int64_t row = F::team();
  if (row >= rows) return;
  Row y(from + row * columns, columns);
  float gradient[F::kValues];
  const auto read = [&](int begin) {
    y.evaluate(begin);
    F::load_row(dy + row * columns + begin, columns - begin, 0.0f, gradient);
  };
  float sum = 0.0f;
  F::for_each_piece(columns, [&](int begin) {
    read(begin);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) sum += gradient[i] * y.values[i];
  });
  sum = F::combine_row(sum, [](float a, float b) { return a + b; });
  F::for_each_piece(columns, [&](int begin) {
    if (!F::kWhole && columns > F::kMost) read(begin);
#pragma unroll
    for (int i = 0; i < F::kValues; ++i) gradient[i] = y.values[i] * (gradient[i] - sum);
    F::store_row(dx + row * columns + begin, columns - begin, gradient);
  });
}

template <class T>
class SoftmaxCustomOnline : public SoftmaxImpl {
 public:
  using SoftmaxImpl::SoftmaxImpl;

  std::string detail(Pass) const override {
    std::string text;
    with_register_row<T>(problem_.columns(), [&](auto form) { text = form.text(); });
    return text;
  }

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    with_register_row<T>(problem_.columns(), [&](auto form) {
      using F = decltype(form);
      launch_following({form.blocks(problem_.rows()), kCombineThreads, 0, run.stream()},
                       softmax_forward_online_kernel<F, T>, problem_.rows(), columns(), x.data<T>(),
                       y.data<T>());
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    with_register_row<T>(problem_.columns(), [&](auto form) {
      using F = decltype(form);
      constexpr bool kStored = std::is_same_v<T, float>;
      using Row = std::conditional_t<kStored, StoredRow<F>, RowSoftmax<F, T>>;
      launch_following({form.blocks(problem_.rows()), kCombineThreads, 0, run.stream()},
                       softmax_backward_online_kernel<F, T, Row>, problem_.rows(), columns(),
                       kStored ? y.data<T>() : x.data<T>(), dy.data<T>(), dx.data<T>());
    });
  }

 private:
  int columns() const { return static_cast<int>(problem_.columns()); }
};

std::optional<std::string> unsupported(const SoftmaxProblem& problem, Pass) {
  if (problem.inner() == 1) return {};
  return "takes rows whose values are neighbours in memory: of images nchw, not nhwc";
}

}  // namespace

ImplEntry<SoftmaxProblem> softmax_custom_online() {
  return gpu_entry<SoftmaxCustomOnline>("custom_online", unsupported);
}

}  // namespace duet
