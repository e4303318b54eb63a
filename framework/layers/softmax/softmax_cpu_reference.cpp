// softmax cpu_reference: a row at a time, sums in double; backward evaluates the row again.
#include <cmath>

#include "core/parallel.h"
#include "layers/softmax/softmax.h"

namespace duet {
namespace {

template <class T>
class SoftmaxCpuReference : public SoftmaxImpl {
 public:
  using SoftmaxImpl::SoftmaxImpl;

  void forward(const Run&, const Tensor& x, const Tensor& y, const Tensor&) override {
    for_each_row([&](int64_t start) {
      const Row row(*this, x.data<T>() + start);
      for (int64_t j = 0; j < columns_; ++j) y.data<T>()[start + j * inner_] = T(row.of(j));
    });
  }

  void backward(const Run&, const Tensor& x, const Tensor&, const Tensor& dy, const Tensor&,
                const Tensor& dx) override {
    for_each_row([&](int64_t start) {
      const Row row(*this, x.data<T>() + start);
      const T* gradient = dy.data<T>() + start;
      double sum = 0;
      for (int64_t j = 0; j < columns_; ++j) sum += gradient[j * inner_] * row.of(j);
      for (int64_t j = 0; j < columns_; ++j) {
        dx.data<T>()[start + j * inner_] = T(row.of(j) * (gradient[j * inner_] - sum));
      }
    });
  }

 private:
  /// softmax(x)[j] = exp(x[j] - max) / sum. The maximum is subtracted so that exp() cannot overflow.
  struct Row {
    const T* x;
    int64_t inner;
    double max, sum = 0;

    Row(const SoftmaxCpuReference& owner, const T* row) : x(row), inner(owner.inner_), max(row[0]) {
      for (int64_t j = 1; j < owner.columns_; ++j) {
        const double value = x[j * inner];
        max = std::fmax(max, value);
      }
      for (int64_t j = 0; j < owner.columns_; ++j) sum += std::exp(x[j * inner] - max);
    }
    double of(int64_t j) const { return std::exp(x[j * inner] - max) / sum; }
  };

  template <class Visit>
  void for_each_row(Visit&& visit) const {
    constexpr int64_t kOperations = 60;  // an element
    parallel_for(problem_.rows(), problem_.x.elements() * kOperations,
                 [&](int64_t row) { visit(row / inner_ * inner_ * columns_ + row % inner_); });
  }

  const int64_t columns_ = problem_.columns(), inner_ = problem_.inner();
};

}  // namespace

ImplEntry<SoftmaxProblem> softmax_cpu_reference() { return reference_entry<SoftmaxCpuReference>(); }

}  // namespace duet
