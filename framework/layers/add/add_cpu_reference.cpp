// Add, cpu_reference: a loop over the elements, each summed in the order of the inputs and
// rounded once.
#include "core/parallel.h"
#include "layers/add/add.h"

namespace duet {
namespace {

template <class T>
class AddCpuReference : public AddImpl {
 public:
  using AddImpl::AddImpl;

  void sum(const Run&, const std::vector<Tensor>& from, const Tensor& to) override {
    T* y = to.data<T>();
    parallel_ranges(to.elements(), std::ssize(from), [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        Accumulator<T> value = from[0].data<T>()[i];
        for (size_t k = 1; k < from.size(); ++k) value += from[k].data<T>()[i];
        y[i] = T(value);
      }
    });
  }
};

}  // namespace

ImplEntry<AddProblem> add_cpu_reference() { return reference_entry<AddCpuReference>(); }

}  // namespace duet
