// layer_norm cpu_reference: the definition as loops. Sums are in double: first the mean of a row,
// then the squares of what differs from it.
#include <cmath>

#include "core/parallel.h"
#include "layers/layer_norm/layer_norm.h"

namespace duet {
namespace {

/// Of a row.
struct Statistics {
  double mean, inverse;  // 1 / sqrt(var + eps)
};

template <class T>
class LayerNormCpuReference : public LayerNormImpl {
 public:
  using LayerNormImpl::LayerNormImpl;
  using W = Accumulator<T>;

  size_t state_bytes() const override { return problem_.rows() * sizeof(Statistics); }

  void forward(const Run&, const Tensor& x, const Tensor& weight, const Tensor& bias,
               const Tensor& y, const Tensor& state) override {
    for_each_row([&](int64_t row) {
      Statistics& s = state.data<Statistics>()[row];
      s = measure(x, row);
      for (int64_t j = 0; j < columns_; ++j) {
        double value = (at(x, row, j) - s.mean) * s.inverse;
        if (weight) value = value * weight.data<W>()[j] + bias.data<W>()[j];
        y.data<T>()[problem_.offset(row, j)] = T(value);
      }
    });
  }

  void backward(const Run&, const Tensor& x, const Tensor& weight, const Tensor& dy,
                const Tensor& state, const Tensor& dx, const Tensor& dweight,
                const Tensor& dbias) override {
    const auto z = [&](int64_t row, int64_t j) {
      const Statistics& s = state.data<Statistics>()[row];
      return (at(x, row, j) - s.mean) * s.inverse;
    };
    const auto g = [&](int64_t row, int64_t j) {
      return at(dy, row, j) * (weight ? weight.data<W>()[j] : W(1));
    };
    const auto count = static_cast<double>(columns_);
    if (dx) {
      for_each_row([&](int64_t row) {
        double sum = 0, product = 0;
        for (int64_t j = 0; j < columns_; ++j) {
          sum += g(row, j);
          product += g(row, j) * z(row, j);
        }
        for (int64_t j = 0; j < columns_; ++j) {
          const double value = g(row, j) - sum / count - z(row, j) * product / count;
          dx.data<T>()[problem_.offset(row, j)] = T(value * state.data<Statistics>()[row].inverse);
        }
      });
    }
    if (!dweight) return;
    parallel_for(columns_, problem_.x.elements() * kOperations, [&](int64_t j) {
      double sum = 0, product = 0;
      for (int64_t row = 0; row < problem_.rows(); ++row) {
        sum += at(dy, row, j);
        product += at(dy, row, j) * z(row, j);
      }
      dweight.data<W>()[j] = static_cast<W>(product);
      dbias.data<W>()[j] = static_cast<W>(sum);
    });
  }

 private:
  static constexpr int64_t kOperations = 10;  // an element

  double at(const Tensor& t, int64_t row, int64_t j) const {
    return t.data<T>()[problem_.offset(row, j)];
  }
  Statistics measure(const Tensor& x, int64_t row) const {
    const auto count = static_cast<double>(columns_);
    double sum = 0, squares = 0;
    for (int64_t j = 0; j < columns_; ++j) sum += at(x, row, j);
    const double mean = sum / count;
    for (int64_t j = 0; j < columns_; ++j) {
      const double difference = at(x, row, j) - mean;
      squares += difference * difference;
    }
    return {mean, 1 / std::sqrt(squares / count + problem_.eps)};
  }
  template <class Visit>
  void for_each_row(Visit&& visit) const {
    parallel_for(problem_.rows(), problem_.x.elements() * kOperations, visit);
  }

  const int64_t columns_ = problem_.columns();
};

}  // namespace

ImplEntry<LayerNormProblem> layer_norm_cpu_reference() {
  return reference_entry<LayerNormCpuReference>();
}

}  // namespace duet
