// Softmax cross-entropy, cpu_reference: a row at a time, float or double.
#include <cmath>

#include "layers/softmax_cross_entropy/softmax_cross_entropy_impls.h"

namespace duet {
namespace {

/// What both passes need of one row: softmax(x)[j] = exp(x[j] - max) / sum. The maximum is
/// subtracted so that exp() cannot overflow.
template <class T>
struct Row {
  T max;
  T sum = 0;
  int argmax = 0;  // first of ties
  bool has_nan = false;

  Row(const T* x, int c) : max(x[0]) {
    for (int j = 0; j < c; ++j) {
      if (x[j] > max) {
        max = x[j];
        argmax = j;
      }
      has_nan |= x[j] != x[j];
    }
    for (int j = 0; j < c; ++j) sum += std::exp(x[j] - max);
  }
};

class SoftmaxCrossEntropyCpuReference : public SoftmaxCrossEntropyImpl {
 public:
  using SoftmaxCrossEntropyImpl::SoftmaxCrossEntropyImpl;

  void forward(Context&, const Tensor& x, const Tensor& labels, const Tensor& loss,
               const Tensor& hits, const Tensor&) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      T total = 0;
      int32_t hit = 0, counted = 0;
      for (int i = 0; i < problem_.n; ++i) {
        const int label = labels.data<int32_t>()[i];
        if (!counts(label)) continue;
        const T* logits = x.data<T>() + int64_t{i} * problem_.c;
        const Row<T> row(logits, problem_.c);
        total += std::log(row.sum) - (logits[label] - row.max);
        hit += !row.has_nan && row.argmax == label;
        ++counted;
      }
      loss.data<T>()[0] = counted > 0 ? total / static_cast<T>(counted) : T(0);
      hits.data<int32_t>()[0] = hit;
      hits.data<int32_t>()[1] = counted;
    });
  }

  void backward(Context&, const Tensor& x, const Tensor& labels, const Tensor& hits,
                const Tensor& dloss, const Tensor&, const Tensor& dx) override {
    visit([&](auto zero) {
      using T = decltype(zero);
      const T scale = dloss.data<T>()[0] / static_cast<T>(hits.data<int32_t>()[1]);
      for (int i = 0; i < problem_.n; ++i) {
        const int label = labels.data<int32_t>()[i];
        const T* logits = x.data<T>() + int64_t{i} * problem_.c;
        T* gradient = dx.data<T>() + int64_t{i} * problem_.c;
        if (!counts(label)) {
          for (int j = 0; j < problem_.c; ++j) gradient[j] = 0;
          continue;
        }
        const Row<T> row(logits, problem_.c);
        for (int j = 0; j < problem_.c; ++j) {
          const T probability = std::exp(logits[j] - row.max) / row.sum;
          gradient[j] = scale * (probability - (j == label ? T(1) : T(0)));
        }
      }
    });
  }

 private:
  bool counts(int label) const { return label >= 0 && label < problem_.c; }

  template <class Loop>
  void visit(Loop&& loop) {
    problem_.dtype == DType::kFloat64 ? loop(0.0) : loop(0.0f);
  }
};

}  // namespace

ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cpu_reference() {
  return {"cpu_reference", supports_all, make_implementation<SoftmaxCrossEntropyCpuReference>};
}

}  // namespace duet
