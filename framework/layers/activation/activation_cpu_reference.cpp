// Activations, cpu_reference: one loop for every type of storage.
#include "core/parallel.h"
#include "core/storage.h"
#include "layers/activation/activation.h"

namespace duet {
namespace {

class ActivationCpuReference : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(const Run&, const Tensor& x, const Tensor& y) override {
    visit([&](auto f, auto zero) {
      using T = decltype(zero);
      const T* from = x.data<T>();
      T* to = y.data<T>();
      parallel_ranges(x.elements(), kOperations, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) to[i] = T(f.forward(Accumulator<T>{from[i]}));
      });
    });
  }

  void backward(const Run&, const Tensor& x, const Tensor& y, const Tensor& dy,
                const Tensor& dx) override {
    visit([&](auto f, auto zero) {
      using T = decltype(zero);
      const T *from = dy.data<T>(), *inputs = x.data<T>(), *outputs = y.data<T>();
      T* to = dx.data<T>();
      parallel_ranges(x.elements(), kOperations, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) {
          const Accumulator<T> value = inputs[i];
          to[i] = T(from[i] * f.gradient(value, output_of<T>(f, value, outputs[i])));
        }
      });
    });
  }

 private:
  static constexpr int64_t kOperations = 4;  // an element

  template <class Loop>
  void visit(Loop&& loop) {
    visit_activation(problem_, [&](auto f) {
      visit_storage(problem_.dtype, [&](auto zero) { loop(f, zero); });
    });
  }
};

}  // namespace

ImplEntry<ActivationProblem> activation_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = supports_all,
          .make = make_implementation<ActivationCpuReference>,
          .dtypes = reference_dtypes()};
}

}  // namespace duet
