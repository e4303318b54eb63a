// Metrics of two tensors, cpu_reference: an element at a time.
#include "layers/pair_metric/pair_metric.h"

namespace duet {
namespace {

template <class T>
class PairMetricCpuReference : public PairMetricImpl {
 public:
  using PairMetricImpl::PairMetricImpl;
  using Value = Accumulator<T>;

  void forward(const Run&, const Tensor& x, const Tensor& targets, const Tensor& rows,
               const Tensor& totals) override {
    double sum = 0;
    int64_t counted = 0;
    for (int64_t i = 0; i < problem_.rows(); ++i) {
      if (rows.data<int32_t>()[i] < 0) continue;
      sum += of_row(x.data<T>() + i * problem_.row_elements(),
                    targets.data<T>() + i * problem_.row_elements());
      ++counted;
    }
    totals.data<Value>()[0] = static_cast<Value>(sum);
    totals.data<Value>()[1] = static_cast<Value>(counted);
  }

 private:
  double of_row(const T* x, const T* targets) const {
    const InnerElements inner(problem_);
    double sum = 0;
    for (int64_t plane = 0; plane < inner.planes; ++plane) {
      for (int64_t line = 0; line < inner.inner_lines; ++line) {
        const int64_t first = inner.first() + (plane * inner.lines + line) * inner.length;
        for (int64_t i = first; i < first + inner.inner_length; ++i) {
          sum += pair_metric_term(problem_.kind, double{Value(x[i])} - double{Value(targets[i])});
        }
      }
    }
    return pair_metric_of(problem_.kind, sum / static_cast<double>(inner.count()),
                          problem_.data_range);
  }
};

}  // namespace

ImplEntry<PairMetricProblem> pair_metric_cpu_reference() {
  return reference_entry<PairMetricCpuReference>();
}

}  // namespace duet
