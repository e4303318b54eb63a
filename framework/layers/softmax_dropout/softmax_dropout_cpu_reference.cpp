// softmax_dropout cpu_reference: a row at a time, in double; nothing is rounded between the two.
#include <cmath>

#include "core/parallel.h"
#include "layers/softmax_dropout/softmax_dropout.h"

namespace duet {
namespace {

template <class T>
class SoftmaxDropoutCpuReference : public SoftmaxDropoutImpl {
 public:
  using SoftmaxDropoutImpl::SoftmaxDropoutImpl;

  void forward(const Run& run, const Tensor& x, const Tensor& y, const Tensor&) override {
    for_each_row([&](int64_t start) {
      const std::vector<double> s = softmax_of(x.data<T>() + start);
      for (int64_t j = 0; j < columns_; ++j) {
        const int64_t i = start + j * inner_;
        y.data<T>()[i] = T(dropped(run, i, s[static_cast<size_t>(j)]));
      }
    });
  }

  void backward(const Run& run, const Tensor& x, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    for_each_row([&](int64_t start) {
      const std::vector<double> s = softmax_of(x.data<T>() + start);
      std::vector<double> d(s.size());
      double sum = 0;
      for (size_t j = 0; j < d.size(); ++j) {
        const int64_t i = start + static_cast<int64_t>(j) * inner_;
        d[j] = dropped(run, i, dy.data<T>()[i]);
        sum += d[j] * s[j];
      }
      for (size_t j = 0; j < d.size(); ++j) {
        dx.data<T>()[start + static_cast<int64_t>(j) * inner_] = T(s[j] * (d[j] - sum));
      }
    });
  }

 private:
  /// Of a row; the maximum is subtracted so that exp() cannot overflow.
  std::vector<double> softmax_of(const T* x) const {
    std::vector<double> s(static_cast<size_t>(columns_));
    double max = x[0], sum = 0;
    for (int64_t j = 1; j < columns_; ++j) max = std::fmax(max, double(x[j * inner_]));
    for (int64_t j = 0; j < columns_; ++j) {
      s[static_cast<size_t>(j)] = std::exp(x[j * inner_] - max);
      sum += s[static_cast<size_t>(j)];
    }
    for (double& value : s) value /= sum;
    return s;
  }
  /// The value that stands at `i` in memory, as dropout hands it on.
  double dropped(const Run& run, int64_t i, double value) const {
    if (!run.training) return value;
    return mask_.kept(*run.step, i) ? value * scale_ : 0.0;
  }

  template <class Visit>
  void for_each_row(Visit&& visit) const {
    constexpr int64_t kOperations = 100;  // an element
    parallel_for(this->problem_.softmax.rows(), this->problem_.softmax.x.elements() * kOperations,
                 [&](int64_t row) { visit(row / inner_ * inner_ * columns_ + row % inner_); });
  }

  const int64_t columns_ = this->problem_.softmax.columns(),
                inner_ = this->problem_.softmax.inner();
  const DropoutMask mask_{this->problem_.dropout};
  const double scale_ = 1.0 / (1.0 - double{this->problem_.dropout.p});
};

}  // namespace

ImplEntry<SoftmaxDropoutProblem> softmax_dropout_cpu_reference() {
  return reference_entry<SoftmaxDropoutCpuReference>();
}

}  // namespace duet
