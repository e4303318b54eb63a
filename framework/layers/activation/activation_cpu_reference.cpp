// Activations, cpu_reference: one loop, float or double.
#include "core/parallel.h"
#include "layers/activation/activation.h"

namespace duet {
namespace {

class ActivationCpuReference : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(Context&, const Tensor& x, const Tensor& y) override {
    visit([&](auto f, auto zero) {
      using T = decltype(zero);
      const T* from = x.data<T>();
      T* to = y.data<T>();
      parallel_ranges(x.elements(), kOperations, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) to[i] = f.forward(from[i]);
      });
    });
  }

  void backward(Context&, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override {
    visit([&](auto f, auto zero) {
      using T = decltype(zero);
      const T *from = dy.data<T>(), *inputs = x.data<T>(), *outputs = y.data<T>();
      T* to = dx.data<T>();
      parallel_ranges(x.elements(), kOperations, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) to[i] = from[i] * f.gradient(inputs[i], outputs[i]);
      });
    });
  }

 private:
  static constexpr int64_t kOperations = 4;  // an element

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
