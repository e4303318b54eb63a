// Dropout, cpu_reference: the mask is drawn anew for each element, in both passes; float or double.
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
    for (int64_t i = 0; i < from.elements(); ++i) {
      const T value = from.data<T>()[i];
      if (context.training()) {
        to.data<T>()[i] = mask_.kept(*context.step(), i) ? value * scale : T(0);
      } else {
        to.data<T>()[i] = value;
      }
    }
  }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<DropoutCpuReference>};
}

}  // namespace duet
