// Activations, cpu_reference: one loop for every type of storage.
#include "core/parallel.h"
#include "layers/activation/activation.h"

namespace duet {
namespace {

template <class T>
class ActivationCpuReference : public ActivationImpl {
 public:
  using ActivationImpl::ActivationImpl;

  void forward(const Run&, const Tensor& x, const Tensor& y, const Tensor&) override {
    const T* from = x.data<T>();
    T* to = y.data<T>();
    for_each([&](auto f, int64_t i) { to[i] = T(f.forward(Accumulator<T>{from[i]})); });
  }

  void backward(const Run&, const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    const T *from = dy.data<T>(), *inputs = x.data<T>(), *outputs = y.data<T>();
    T* to = dx.data<T>();
    for_each([&](auto f, int64_t i) {
      const Accumulator<T> value = inputs[i];
      to[i] = T(from[i] * f.gradient(value, output_of<T>(f, value, outputs[i])));
    });
  }

 private:
  /// Calls visit(function, i) for every element.
  template <class Visit>
  void for_each(Visit&& visit) {
    constexpr int64_t kOperations = 4;  // an element
    visit_activation(problem_, [&](auto f) {
      parallel_ranges(problem_.x.elements(), kOperations, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) visit(f, i);
      });
    });
  }
};

}  // namespace

ImplEntry<ActivationProblem> activation_cpu_reference() {
  return reference_entry<ActivationCpuReference>();
}

}  // namespace duet
