// linear, cpu_reference: the definition as three nested loops.
#include "core/parallel.h"
#include "layers/linear/linear_impls.h"
#include "layers/rounded_sums.h"

namespace duet {
namespace {

class LinearCpuReference : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kBackwardData ? sum_bytes(problem_.x_desc()) : 0;
  }

  void forward(const Run&, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      using Sum = Accumulator<T>;
      forward(x.data<T>(), w.data<Sum>(), b.data<Sum>(), y.data<T>());
    });
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      Accumulator<T>* sums = sums_of<T>(dx, run);
      backward_data(dy.data<T>(), w.data<Accumulator<T>>(), sums);
      store_sums<T>(sums, dx);
    });
  }

  void backward_filter(const Run&, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      using Sum = Accumulator<T>;
      backward_filter(x.data<T>(), dy.data<T>(), dw.data<Sum>(), db.data<Sum>());
    });
  }

 private:
  template <class T, class Sum>
  void forward(const T* x, const Sum* w, const Sum* b, T* y) const {
    parallel_for(problem_.n, products(), [&](int64_t n) {
      for (int64_t o = 0; o < problem_.out; ++o) {
        Sum sum = b ? b[o] : Sum(0);
        for (int64_t i = 0; i < problem_.in; ++i) {
          sum += x[n * problem_.in + i] * w[o * problem_.in + i];
        }
        y[n * problem_.out + o] = T(sum);
      }
    });
  }

  template <class T, class Sum>
  void backward_data(const T* dy, const Sum* w, Sum* dx) const {
    parallel_for(problem_.n, products(), [&](int64_t n) {
      Sum* row = dx + n * problem_.in;
      for (int64_t i = 0; i < problem_.in; ++i) row[i] = Sum(0);
      for (int64_t o = 0; o < problem_.out; ++o) {
        const Sum gradient = dy[n * problem_.out + o];
        for (int64_t i = 0; i < problem_.in; ++i) row[i] += gradient * w[o * problem_.in + i];
      }
    });
  }

  template <class T, class Sum>
  void backward_filter(const T* x, const T* dy, Sum* dw, Sum* db) const {
    parallel_for(problem_.out, products(), [&](int64_t o) {
      Sum* row = dw + o * problem_.in;
      Sum sum = Sum(0);
      for (int64_t i = 0; i < problem_.in; ++i) row[i] = Sum(0);
      for (int64_t n = 0; n < problem_.n; ++n) {
        const Sum gradient = dy[n * problem_.out + o];
        sum += gradient;
        for (int64_t i = 0; i < problem_.in; ++i) row[i] += gradient * x[n * problem_.in + i];
      }
      if (db) db[o] = sum;
    });
  }

  int64_t products() const { return problem_.products(); }

  template <class Call>
  void visit(Call&& call) const {
    visit_storage(problem_.dtype, call);
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = supports_all,
          .make = make_implementation<LinearCpuReference>,
          .dtypes = reference_dtypes()};
}

}  // namespace duet
