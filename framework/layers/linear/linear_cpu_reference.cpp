// linear, cpu_reference: the definition as three nested loops.
#include "core/parallel.h"
#include "layers/linear/linear.h"
#include "layers/rounded_sums.h"

namespace duet {
namespace {

template <class T>
class LinearCpuReference : public LinearImpl {
 public:
  using LinearImpl::LinearImpl;
  using Sum = Accumulator<T>;

  size_t workspace_bytes(Pass pass) const override {
    return pass == Pass::kBackwardData ? sum_bytes(problem_.x_desc()) : 0;
  }

  void forward(const Run&, const Tensor& x, const Tensor& w, const Tensor& b,
               const Tensor& y) override {
    parallel_for(problem_.n, problem_.products(), [&](int64_t n) {
      const T* row = x.data<T>() + n * problem_.in;
      for (int64_t o = 0; o < problem_.out; ++o) {
        const Sum* weights = w.data<Sum>() + o * problem_.in;
        Sum sum = b ? b.data<Sum>()[o] : Sum(0);
        for (int64_t i = 0; i < problem_.in; ++i) sum += row[i] * weights[i];
        y.data<T>()[n * problem_.out + o] = T(sum);
      }
    });
  }

  void backward_data(const Run& run, const Tensor& dy, const Tensor& w, const Tensor& dx) override {
    Sum* sums = sums_of<T>(dx, run);
    parallel_for(problem_.n, problem_.products(), [&](int64_t n) {
      Sum* row = sums + n * problem_.in;
      for (int64_t i = 0; i < problem_.in; ++i) row[i] = Sum(0);
      for (int64_t o = 0; o < problem_.out; ++o) {
        const Sum gradient = dy.data<T>()[n * problem_.out + o];
        const Sum* weights = w.data<Sum>() + o * problem_.in;
        for (int64_t i = 0; i < problem_.in; ++i) row[i] += gradient * weights[i];
      }
    });
    store_sums<T>(sums, dx);
  }

  void backward_filter(const Run&, const Tensor& x, const Tensor& dy, const Tensor& dw,
                       const Tensor& db) override {
    parallel_for(problem_.out, problem_.products(), [&](int64_t o) {
      Sum* row = dw.data<Sum>() + o * problem_.in;
      Sum sum = Sum(0);
      for (int64_t i = 0; i < problem_.in; ++i) row[i] = Sum(0);
      for (int64_t n = 0; n < problem_.n; ++n) {
        const Sum gradient = dy.data<T>()[n * problem_.out + o];
        const T* inputs = x.data<T>() + n * problem_.in;
        sum += gradient;
        for (int64_t i = 0; i < problem_.in; ++i) row[i] += gradient * inputs[i];
      }
      if (db) db.data<Sum>()[o] = sum;
    });
  }
};

}  // namespace

ImplEntry<LinearProblem> linear_cpu_reference() { return reference_entry<LinearCpuReference>(); }

}  // namespace duet
