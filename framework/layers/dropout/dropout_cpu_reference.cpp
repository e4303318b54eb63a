// Dropout, cpu_reference: the mask is drawn anew for each element, in both passes; float or double.
#include "core/parallel.h"
#include "layers/dropout/dropout_impls.h"

namespace duet {
namespace {

class DropoutCpuReference : public DropoutImpl {
 public:
  using DropoutImpl::DropoutImpl;

  void forward(Context& context, const Tensor& x, const Tensor& y, const Tensor&) override {
    apply(context, x, y);
  }
  void backward(Context& context, const Tensor& dy, const Tensor&, const Tensor& dx) override {
    apply(context, dy, dx);
  }

 private:
  void apply(Context& context, const Tensor& from, const Tensor& to) {
    problem_.dtype == DType::kFloat64 ? apply<double>(context, from, to)
                                      : apply<float>(context, from, to);
  }

  template <class T>
  void apply(Context& context, const Tensor& from, const Tensor& to) {
    const T scale = T(1) / (T(1) - T(problem_.p));
    const T* x = from.data<T>();
    T* y = to.data<T>();
    if (!context.training()) {
      std::copy_n(x, from.elements(), y);
      return;
    }
    const uint64_t step = *context.step();
    constexpr int64_t kOperations = 40;  // an element: a Philox block each
    parallel_ranges(from.elements(), kOperations, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) y[i] = mask_.kept(step, i) ? x[i] * scale : T(0);
    });
  }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<DropoutCpuReference>};
}

}  // namespace duet
