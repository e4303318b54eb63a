// Add, cpu_reference: a loop over the elements, each summed in the order of the inputs, with relu
// or its gradient where that follows, and rounded once.
#include "core/parallel.h"
#include "layers/activation/activation.h"
#include "layers/add/add.h"

namespace duet {
namespace {

template <class T>
class AddCpuReference : public AddImpl {
 public:
  using AddImpl::AddImpl;

  void sum(const Run&, const std::vector<Tensor>& from, Then then, const Tensor& y,
           const Tensor& to) override {
    const ReluFunction relu;
    if (then == Then::kNothing) sum(from, to, [](auto value, int64_t) { return value; });
    if (then == Then::kRelu) {
      sum(from, to, [&](auto value, int64_t) { return relu.forward(value); });
    }
    if (then == Then::kReluGradient) {
      sum(from, to, [&, y = y.data<T>()](auto value, int64_t i) {
        return value * relu.gradient(Accumulator<T>(y[i]), Accumulator<T>(y[i]));
      });
    }
  }

 private:
  template <class Then>
  static void sum(const std::vector<Tensor>& from, const Tensor& to, Then then) {
    T* out = to.data<T>();
    parallel_ranges(to.elements(), std::ssize(from), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        Accumulator<T> value = from[0].data<T>()[i];
        for (size_t k = 1; k < from.size(); ++k) value += from[k].data<T>()[i];
        out[i] = T(then(value, i));
      }
    });
  }
};

}  // namespace

ImplEntry<AddProblem> add_cpu_reference() { return reference_entry<AddCpuReference>(); }

}  // namespace duet
