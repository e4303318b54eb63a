// linear, cpu_blas: CBLAS sgemm, row-major throughout. A product is cut along its result's columns
// into slices that threads take; the slices depend on the sizes alone, so the bits do not depend on
// the number of threads.
#include <algorithm>

#include "core/parallel.h"
#include "core/single_threaded_blas.h"
#include "layers/linear/linear.h"

namespace duet {
namespace {

/// Columns of a slice at least: the other operand is packed anew for each slice.
constexpr int64_t kSliceColumns = 64;

/// A row-major matrix inside a larger one, or its transpose.
struct Operand {
  CBLAS_TRANSPOSE op;
  const float* data;
  blasint stride;
};

class LinearCpuBlas : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  void forward(const Run&, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    const auto [n, in, out] = sizes();
    if (b) {
      for (int64_t row = 0; row < n; ++row) {
        std::copy_n(b.data<float>(), out, y.data<float>() + row * out);
      }
    }
    multiply(n, out, in, {CblasNoTrans, x.data<float>(), in}, {CblasTrans, w.data<float>(), in},
             b ? 1.0f : 0.0f, y.data<float>());
  }

  void backward_data(const Run&, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    const auto [n, in, out] = sizes();
    multiply(n, in, out, {CblasNoTrans, dy.data<float>(), out}, {CblasNoTrans, w.data<float>(), in},
             0.0f, dx.data<float>());
  }

  void backward_filter(const Run&, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const auto [n, in, out] = sizes();
    multiply(out, in, n, {CblasTrans, dy.data<float>(), out}, {CblasNoTrans, x.data<float>(), in},
             0.0f, dw.data<float>());
    if (!db) return;
    float* sums = db.data<float>();
    std::fill_n(sums, out, 0.0f);
    for (int64_t row = 0; row < n; ++row) {
      const float* gradients = dy.data<float>() + row * out;
      for (int64_t o = 0; o < out; ++o) sums[o] += gradients[o];
    }
  }

 private:
  struct Sizes {
    blasint n, in, out;
  };
  Sizes sizes() const { return {problem_.n, problem_.in, problem_.out}; }

  /// c [m x n] = op(a) [m x k] * op(b) [k x n] + beta * c
  static void multiply(blasint m, blasint n, blasint k, Operand a, Operand b, float beta,
                       float* c) {
    const SingleThreadedBlas single;
    const int64_t products = int64_t{m} * n * k;
    const int64_t slices =
        std::clamp<int64_t>(std::min(n / kSliceColumns, products / kWorthSharing), 1, 16);
    parallel_for(slices, products, [&](int64_t slice) {
      const blasint first = static_cast<blasint>(n * slice / slices);
      const blasint last = static_cast<blasint>(n * (slice + 1) / slices);
      const int64_t start = b.op == CblasTrans ? int64_t{first} * b.stride : first;
      cblas_sgemm(CblasRowMajor, a.op, b.op, m, last - first, k, 1.0f, a.data, a.stride,
                  b.data + start, b.stride, beta, c + first, n);
    });
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_cpu_blas() { return impl_entry<LinearCpuBlas>("cpu_blas"); }

}  // namespace duet
