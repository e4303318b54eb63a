// Dropout, cpu_reference: the mask is drawn anew for each element, in both passes.
#include "core/parallel.h"
#include "core/storage.h"
#include "layers/dropout/dropout_impls.h"

namespace duet {
namespace {

class DropoutCpuReference : public DropoutImpl {
 public:
  using DropoutImpl::DropoutImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    apply(run, x, y);
  }
  void backward(const Run& run, const Tensor& dy, const Tensor&, const Tensor& dx) override {
    apply(run, dy, dx);
  }

 private:
  void apply(const Run& run, const Tensor& from, const Tensor& to) {
    visit_storage(problem_.dtype, [&](auto zero) { apply<decltype(zero)>(run, from, to); });
  }

  template <class T>
  void apply(const Run& run, const Tensor& from, const Tensor& to) {
    using Value = Accumulator<T>;
    const Value scale = Value(1) / (Value(1) - Value(problem_.p));
    const T* x = from.data<T>();
    T* y = to.data<T>();
    if (!run.training) {
      std::copy_n(x, from.elements(), y);
      return;
    }
    const uint64_t step = *run.step;
    constexpr int64_t kOperations = 40;  // an element: a Philox block each
    parallel_ranges(from.elements(), kOperations, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        y[i] = T(mask_.kept(step, i) ? x[i] * scale : Value(0));
      }
    });
  }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = supports_all,
          .make = make_implementation<DropoutCpuReference>,
          .dtypes = reference_dtypes()};
}

}  // namespace duet
