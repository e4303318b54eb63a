// Softmax cross-entropy, cpu_reference: a row at a time.
#include <cmath>

#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {
namespace {

/// What both passes need of one row: softmax(x)[j] = exp(x[j] - max) / sum. The maximum is
/// subtracted so that exp() cannot overflow.
template <class T>
struct Row {
  using Value = Accumulator<T>;
  Value max;
  Value sum = 0;
  int argmax = 0;  // first of ties
  bool has_nan = false;

  Row(const T* x, int c) : max(x[0]) {
    for (int j = 0; j < c; ++j) {
      const Value value = x[j];
      if (value > max) {
        max = value;
        argmax = j;
      }
      has_nan |= value != value;
    }
    for (int j = 0; j < c; ++j) sum += std::exp(x[j] - max);
  }
};

template <class T>
class SoftmaxCrossEntropyCpuReference : public SoftmaxCrossEntropyImpl {
 public:
  using SoftmaxCrossEntropyImpl::SoftmaxCrossEntropyImpl;
  using Value = Accumulator<T>;

  void forward(const Run&, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor&) override {
    const SoftTargets targets(problem_, problem_.class_weights.data());
    double total = 0, weight = 0;  // over many rows float would lose digits
    int32_t hit = 0, counted = 0;
    for (int i = 0; i < problem_.n; ++i) {
      const RowLabels of_row = targets.of_row(labels.data<int32_t>(), i);
      if (!of_row.count(problem_.c)) continue;
      const T* logits = x.data<T>() + int64_t{i} * problem_.c;
      const Row<T> row(logits, problem_.c);
      const Value log_sum = std::log(row.sum);
      const auto loss_of = [&](int j) {
        return targets.weight(j) * (log_sum - (logits[j] - row.max));
      };
      total += targets.kept * of_row.mean(loss_of);
      if (targets.spread != 0.0f) {
        for (int j = 0; j < problem_.c; ++j) total += targets.spread * loss_of(j);
      }
      weight += targets.weight(of_row);
      hit += !row.has_nan && row.argmax == of_row.label;
      ++counted;
    }
    loss.data<Value>()[0] = static_cast<Value>(weight > 0 ? total / weight : 0);
    hits.data<int32_t>()[0] = hit;
    hits.data<int32_t>()[1] = counted;
  }

  void backward(const Run&, const Tensor& x, const Tensor& labels, const Tensor&,
                const Tensor& dloss, const Tensor&, const Tensor& dx) override {
    const SoftTargets targets(problem_, problem_.class_weights.data());
    Value weight = 0;
    for (int i = 0; i < problem_.n; ++i) {
      const RowLabels of_row = targets.of_row(labels.data<int32_t>(), i);
      if (of_row.count(problem_.c)) weight += targets.weight(of_row);
    }
    const Value scale = weight > 0 ? dloss.data<Value>()[0] / weight : Value(0);
    for (int i = 0; i < problem_.n; ++i) {
      const RowLabels of_row = targets.of_row(labels.data<int32_t>(), i);
      const T* logits = x.data<T>() + int64_t{i} * problem_.c;
      T* gradient = dx.data<T>() + int64_t{i} * problem_.c;
      if (!of_row.count(problem_.c)) {
        for (int j = 0; j < problem_.c; ++j) gradient[j] = T(0);
        continue;
      }
      const Row<T> row(logits, problem_.c);
      for (int j = 0; j < problem_.c; ++j) {
        const Value probability = std::exp(logits[j] - row.max) / row.sum;
        gradient[j] = T(scale * (targets.sum(of_row) * probability - targets.of(j, of_row)));
      }
    }
  }
};

}  // namespace

ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cpu_reference() {
  return reference_entry<SoftmaxCrossEntropyCpuReference>();
}

}  // namespace duet
