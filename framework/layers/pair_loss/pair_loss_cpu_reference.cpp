// Losses of two tensors, cpu_reference: a row at a time.
#include "layers/pair_loss/pair_loss.h"

namespace duet {
namespace {

template <class T>
class PairLossCpuReference : public PairLossImpl {
 public:
  using PairLossImpl::PairLossImpl;
  using Value = Accumulator<T>;

  void forward(const Run&, const Tensor& x, const Tensor& targets, const Tensor& rows,
               const Tensor& loss, const Tensor& hits) override {
    visit_pair_loss(problem_, [&](auto term) {
      double total = 0;  // of very many terms
      int32_t counted = 0;
      const int64_t elements = problem_.row_elements();
      for (int64_t i = 0; i < problem_.rows(); ++i) {
        if (rows.data<int32_t>()[i] < 0) continue;
        for (int64_t j = i * elements; j < (i + 1) * elements; ++j) {
          total += term.value(Value(x.data<T>()[j]), Value(targets.data<T>()[j]));
        }
        ++counted;
      }
      const double terms = static_cast<double>(counted) * static_cast<double>(elements);
      loss.data<Value>()[0] = counted > 0 ? static_cast<Value>(total / terms) : Value(0);
      hits.data<int32_t>()[0] = 0;
      hits.data<int32_t>()[1] = counted;
    });
  }

  void backward(const Run&, const Tensor& x, const Tensor& targets, const Tensor& rows,
                const Tensor& hits, const Tensor& dloss, const Tensor& dx) override {
    visit_pair_loss(problem_, [&](auto term) {
      const int64_t elements = problem_.row_elements();
      const Value scale = dloss.data<Value>()[0] / (static_cast<Value>(hits.data<int32_t>()[1]) *
                                                    static_cast<Value>(elements));
      for (int64_t i = 0; i < problem_.rows(); ++i) {
        const bool counts = rows.data<int32_t>()[i] >= 0;
        for (int64_t j = i * elements; j < (i + 1) * elements; ++j) {
          const Value slope = term.slope(Value(x.data<T>()[j]), Value(targets.data<T>()[j]));
          dx.data<T>()[j] = T(counts ? scale * slope : Value(0));
        }
      }
    });
  }
};

}  // namespace

ImplEntry<PairLossProblem> pair_loss_cpu_reference() {
  return reference_entry<PairLossCpuReference>();
}

}  // namespace duet
