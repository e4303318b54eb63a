// Add, cpu_reference: a loop over the elements, each summed in the order of the inputs and
// rounded once.
#include "core/parallel.h"
#include "core/storage.h"
#include "layers/add/add_impls.h"

namespace duet {
namespace {

class AddCpuReference : public AddImpl {
 public:
  using AddImpl::AddImpl;

  void sum(const Run&, const std::vector<Tensor>& from, const Tensor& to) override {
    visit_storage(problem_.dtype, [&](auto zero) { sum<decltype(zero)>(from, to); });
  }

 private:
  template <class T>
  static void sum(const std::vector<Tensor>& from, const Tensor& to) {
    T* y = to.data<T>();
    parallel_ranges(to.elements(), static_cast<int64_t>(from.size()),
                    [&](int64_t first, int64_t last) {
                      for (int64_t i = first; i < last; ++i) {
                        Accumulator<T> value = from[0].data<T>()[i];
                        for (size_t k = 1; k < from.size(); ++k) value += from[k].data<T>()[i];
                        y[i] = T(value);
                      }
                    });
  }
};

}  // namespace

ImplEntry<AddProblem> add_cpu_reference() {
  return {.id = "cpu_reference",
          .unsupported = supports_all,
          .make = make_implementation<AddCpuReference>,
          .dtypes = reference_dtypes()};
}

}  // namespace duet
