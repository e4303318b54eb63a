// Dropout, cpu_reference: the mask is drawn anew for each element, in both passes.
#include "core/parallel.h"
#include "layers/dropout/dropout.h"

namespace duet {
namespace {

template <class T>
class DropoutCpuReference : public DropoutImpl {
 public:
  using DropoutImpl::DropoutImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    apply(run, x.data<T>(), y.data<T>());
  }
  void backward(const Run& run, const Tensor&, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    apply(run, dy.data<T>(), dx.data<T>());
  }

 private:
  void apply(const Run& run, const T* from, T* to) {
    using Value = Accumulator<T>;
    const Value scale = Value(1) / (Value(1) - Value(problem_.p));
    if (!run.training) {
      std::copy_n(from, problem_.x.elements(), to);
      return;
    }
    const uint64_t step = *run.step;
    constexpr int64_t kOperations = 40;  // an element: a Philox block each
    parallel_ranges(problem_.x.elements(), kOperations, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        to[i] = T(mask_.kept(step, i) ? from[i] * scale : Value(0));
      }
    });
  }
};

}  // namespace

ImplEntry<DropoutProblem> dropout_cpu_reference() { return reference_entry<DropoutCpuReference>(); }

}  // namespace duet
