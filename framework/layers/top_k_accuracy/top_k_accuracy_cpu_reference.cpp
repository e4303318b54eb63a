// top_k_accuracy, cpu_reference: a row at a time.
#include "layers/top_k_accuracy/top_k_accuracy.h"

namespace duet {
namespace {

template <class T>
class TopKAccuracyCpuReference : public TopKAccuracyImpl {
 public:
  using TopKAccuracyImpl::TopKAccuracyImpl;
  using Value = Accumulator<T>;

  void forward(const Run&, const Tensor& x, const Tensor& labels, const Tensor& totals) override {
    int64_t hits = 0, counted = 0;
    for (int64_t i = 0; i < problem_.n; ++i) {
      const RowLabels of_row =
          labels_of_row(labels.data<int32_t>(), problem_.mixed, i, problem_.ignored_class);
      if (!of_row.count(problem_.c)) continue;
      hits += is_hit(x.data<T>() + i * problem_.c, of_row.label);
      ++counted;
    }
    totals.data<Value>()[0] = static_cast<Value>(hits);
    totals.data<Value>()[1] = static_cast<Value>(counted);
  }

 private:
  bool is_hit(const T* row, int label) const {
    const Value target = row[label];
    int larger = 0;
    for (int j = 0; j < problem_.c; ++j) {
      const Value value = row[j];
      if (value != value) return false;
      larger += value > target || (value == target && j < label);
    }
    return larger < problem_.k;
  }
};

}  // namespace

ImplEntry<TopKAccuracyProblem> top_k_accuracy_cpu_reference() {
  return reference_entry<TopKAccuracyCpuReference>();
}

}  // namespace duet
