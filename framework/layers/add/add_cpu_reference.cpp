// Add, cpu_reference: a loop over the elements, each summed in the order of the inputs; float or
// double.
#include "core/parallel.h"
#include "layers/add/add_impls.h"

namespace duet {
namespace {

class AddCpuReference : public AddImpl {
 public:
  using AddImpl::AddImpl;

  void sum(Context&, const std::vector<Tensor>& from, const Tensor& to) override {
    problem_.dtype == DType::kFloat64 ? sum<double>(from, to) : sum<float>(from, to);
  }

 private:
  template <class T>
  static void sum(const std::vector<Tensor>& from, const Tensor& to) {
    T* y = to.data<T>();
    parallel_ranges(to.elements(), static_cast<int64_t>(from.size()),
                    [&](int64_t first, int64_t last) {
                      for (int64_t i = first; i < last; ++i) {
                        T value = from[0].data<T>()[i];
                        for (size_t k = 1; k < from.size(); ++k) value += from[k].data<T>()[i];
                        y[i] = value;
                      }
                    });
  }
};

}  // namespace

ImplEntry<AddProblem> add_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<AddCpuReference>};
}

}  // namespace duet
