// linear, cpu_reference: the definition as three nested loops, float or double.
#include "core/parallel.h"
#include "layers/linear/linear_impls.h"

namespace duet {
namespace {

class LinearCpuReference : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  void forward(Context&, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      forward(x.data<T>(), w.data<T>(), b.data<T>(), y.data<T>());
    });
  }

  void backward_data(Context&, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      backward_data(dy.data<T>(), w.data<T>(), dx.data<T>());
    });
  }

  void backward_filter(Context&, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      backward_filter(x.data<T>(), dy.data<T>(), dw.data<T>(), db.data<T>());
    });
  }

 private:
  template <class T>
  void forward(const T* x, const T* w, const T* b, T* y) const {
    parallel_for(problem_.n, products(), [&](int64_t n) {
      for (int64_t o = 0; o < problem_.out; ++o) {
        T sum = b ? b[o] : T(0);
        for (int64_t i = 0; i < problem_.in; ++i) {
          sum += x[n * problem_.in + i] * w[o * problem_.in + i];
        }
        y[n * problem_.out + o] = sum;
      }
    });
  }

  template <class T>
  void backward_data(const T* dy, const T* w, T* dx) const {
    parallel_for(problem_.n, products(), [&](int64_t n) {
      T* row = dx + n * problem_.in;
      for (int64_t i = 0; i < problem_.in; ++i) row[i] = T(0);
      for (int64_t o = 0; o < problem_.out; ++o) {
        const T gradient = dy[n * problem_.out + o];
        for (int64_t i = 0; i < problem_.in; ++i) row[i] += gradient * w[o * problem_.in + i];
      }
    });
  }

  template <class T>
  void backward_filter(const T* x, const T* dy, T* dw, T* db) const {
    parallel_for(problem_.out, products(), [&](int64_t o) {
      T* row = dw + o * problem_.in;
      T sum = T(0);
      for (int64_t i = 0; i < problem_.in; ++i) row[i] = T(0);
      for (int64_t n = 0; n < problem_.n; ++n) {
        const T gradient = dy[n * problem_.out + o];
        sum += gradient;
        for (int64_t i = 0; i < problem_.in; ++i) row[i] += gradient * x[n * problem_.in + i];
      }
      if (db) db[o] = sum;
    });
  }

  int64_t products() const { return problem_.products(); }

  template <class Call>
  void visit(Call&& call) const {
    problem_.dtype == DType::kFloat64 ? call(0.0) : call(0.0f);
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<LinearCpuReference>};
}

}  // namespace duet
