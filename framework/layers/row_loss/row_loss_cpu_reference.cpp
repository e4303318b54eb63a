// Losses over rows, cpu_reference: a row at a time.
#include "layers/row_loss/row_loss.h"

namespace duet {
namespace {

template <class T>
class RowLossCpuReference : public RowLossImpl {
 public:
  using RowLossImpl::RowLossImpl;
  using Value = Accumulator<T>;

  void forward(const Run&, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor&) override {
    visit_row_loss(problem_, [&](auto term) {
      double total = 0;  // of very many terms
      int32_t hit = 0, counted = 0;
      for (int i = 0; i < problem_.n; ++i) {
        const int label = labels.data<int32_t>()[i];
        if (!counts(label)) continue;
        const T* row = x.data<T>() + int64_t{i} * problem_.c;
        const Value at_label = row[label];
        bool beaten = at_label != at_label;
        for (int j = 0; j < problem_.c; ++j) {
          const Value value = row[j];
          total += term.value(value, at_label, j == label);
          beaten |= j < label ? !(value < at_label) : !(value <= at_label);
        }
        hit += !beaten;
        ++counted;
      }
      const double elements = static_cast<double>(counted) * problem_.c;
      loss.data<Value>()[0] = counted > 0 ? static_cast<Value>(total / elements) : Value(0);
      hits.data<int32_t>()[0] = hit;
      hits.data<int32_t>()[1] = counted;
    });
  }

  void backward(const Run&, const Tensor& x, const Tensor& labels, const Tensor& hits,
                const Tensor& dloss, const Tensor&, const Tensor& dx) override {
    visit_row_loss(problem_, [&](auto term) {
      const Value scale = dloss.data<Value>()[0] / (static_cast<Value>(hits.data<int32_t>()[1]) *
                                                    static_cast<Value>(problem_.c));
      for (int i = 0; i < problem_.n; ++i) {
        const int label = labels.data<int32_t>()[i];
        const T* row = x.data<T>() + int64_t{i} * problem_.c;
        T* gradient = dx.data<T>() + int64_t{i} * problem_.c;
        double others = 0;
        for (int j = 0; j < problem_.c; ++j) {
          gradient[j] = T(0);
          if (!counts(label) || (term.kCoupled && j == label)) continue;
          const Value slope = term.slope(Value(row[j]), Value(row[label]), j == label);
          gradient[j] = T(scale * slope);
          others += slope;
        }
        if (counts(label) && term.kCoupled)
          gradient[label] = T(-scale * static_cast<Value>(others));
      }
    });
  }

 private:
  bool counts(int label) const { return label >= 0 && label < problem_.c; }
};

}  // namespace

ImplEntry<RowLossProblem> row_loss_cpu_reference() {
  return reference_entry<RowLossCpuReference>();
}

}  // namespace duet
