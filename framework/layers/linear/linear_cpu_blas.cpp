// linear, cpu_blas: one CBLAS sgemm a pass, row-major throughout.
#include <cblas.h>

#include <algorithm>

#include "layers/linear/linear_impls.h"

namespace duet {
namespace {

class LinearCpuBlas : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  void forward(Context&, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    const auto [n, in, out] = sizes();
    if (b) {
      for (int64_t row = 0; row < n; ++row) {
        std::copy_n(b.data<float>(), out, y.data<float>() + row * out);
      }
    }
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, out, in, 1.0f, x.data<float>(), in,
                w.data<float>(), in, b ? 1.0f : 0.0f, y.data<float>(), out);
  }

  void backward_data(Context&, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    const auto [n, in, out] = sizes();
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, n, in, out, 1.0f, dy.data<float>(), out,
                w.data<float>(), in, 0.0f, dx.data<float>(), in);
  }

  void backward_filter(Context&, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    const auto [n, in, out] = sizes();
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, out, in, n, 1.0f, dy.data<float>(), out,
                x.data<float>(), in, 0.0f, dw.data<float>(), in);
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
};

}  // namespace

ImplEntry<LinearProblem> linear_cpu_blas() {
  return {"cpu_blas", supports_all, make_implementation<LinearCpuBlas>};
}

}  // namespace duet
