// Activations, cpu_reference: one loop, float or double.
#include "layers/activation/activation.h"

namespace duet {
namespace {

class ActivationCpuReference : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(Context&, const Tensor& x, const Tensor& y) override {
    visit([&](auto f, auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < x.elements(); ++i) y.data<T>()[i] = f.forward(x.data<T>()[i]);
    });
  }

  void backward(Context&, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override {
    visit([&](auto f, auto zero) {
      using T = decltype(zero);
      for (int64_t i = 0; i < x.elements(); ++i) {
        dx.data<T>()[i] = dy.data<T>()[i] * f.gradient(x.data<T>()[i], y.data<T>()[i]);
      }
    });
  }

 private:
  template <class Loop>
  void visit(Loop&& loop) {
    visit_activation(problem_, [&](auto f) {
      problem_.dtype == DType::kFloat64 ? loop(f, 0.0) : loop(f, 0.0f);
    });
  }
};

}  // namespace

ImplEntry<ActivationProblem> activation_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<ActivationCpuReference>};
}

}  // namespace duet
