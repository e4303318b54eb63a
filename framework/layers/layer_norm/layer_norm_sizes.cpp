// How large the values are whose differences layer normalisation takes: what its rounding is held
// to (layers/rounding.h), as batch_norm_sizes.cpp does it.
#include <cmath>

#include "core/parallel.h"
#include "layers/layer_norm/layer_norm.h"
#include "layers/rounding.h"

namespace duet {
namespace {

using Values = std::vector<std::vector<double>>;

struct Row {
  double mean = 0, mean_square = 0, inverse = 0;

  Row(const LayerNormProblem& problem, const std::vector<double>& x, int64_t row) {
    const auto count = static_cast<double>(problem.columns());
    double var = 0;
    for (int64_t j = 0; j < problem.columns(); ++j) {
      const double value = x[problem.offset(row, j)];
      mean += value / count;
      mean_square += square(value) / count;
    }
    for (int64_t j = 0; j < problem.columns(); ++j) {
      var += square(x[problem.offset(row, j)] - mean) / count;
    }
    inverse = 1 / std::sqrt(var + problem.eps);
  }
  double z(double x) const { return (x - mean) * inverse; }
  /// Of z, before x and the mean cancel; the mean errs by its share of mean_square.
  double z_square(double x) const { return (square(x) + mean_square) * square(inverse); }
};

}  // namespace

Values LayerNormLayer::sizes(Pass pass, bool, const Values& x, const Values& w,
                             const Values& dy) const {
  const LayerNormProblem& p = problem();
  const int64_t columns = p.columns();
  const bool forward = pass == Pass::kForward;
  Values sizes = {Values::value_type(x[0].size())};
  constexpr int64_t kOperations = 30;
  parallel_for(p.rows(), kOperations * p.x.elements(), [&](int64_t r) {
    const Row row(p, x[0], r);
    double sum = 0, product = 0, sum_square = 0, product_square = 0;
    for (int64_t j = 0; j < columns && !forward; ++j) {
      const int64_t i = p.offset(r, j);
      const double g = dy[0][i] * (affine_ ? w[0][j] : 1);
      sum += g;
      product += g * row.z(x[0][i]);
      sum_square += square(g);
      product_square += square(g) * row.z_square(x[0][i]);
    }
    sum_square += square(sum);
    product_square += square(product) + row.mean_square * square(row.inverse * sum);
    const double part = 1 / static_cast<double>(columns);
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t i = p.offset(r, j);
      const double weight = affine_ ? w[0][j] : 1, bias = affine_ ? w[1][j] : 0;
      const double z = row.z(x[0][i]), z_square = row.z_square(x[0][i]);
      sizes[0][i] = size_of_squares(
          forward ? square(weight) * z_square + square(bias) + square(z * weight + bias)
                  : square(row.inverse) * (square(dy[0][i] * weight) +
                                           part * (sum_square + square(z) * product_square) +
                                           z_square * square(part * product)));
    }
  });
  if (forward || !affine_) return sizes;
  Values sums(4, Values::value_type(columns));  // of dy * z and dy, then of their squares
  for (int64_t r = 0; r < p.rows(); ++r) {
    const Row row(p, x[0], r);
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t i = p.offset(r, j);
      sums[0][j] += dy[0][i] * row.z(x[0][i]);
      sums[1][j] += dy[0][i];
      sums[2][j] += square(dy[0][i]) * row.z_square(x[0][i]);
      sums[3][j] += square(dy[0][i]);
    }
  }
  for (const int k : {0, 1}) {
    for (int64_t j = 0; j < columns; ++j) {
      sums[k][j] = size_of_squares(square(sums[k][j]) + sums[2 + k][j]);
    }
    sizes.push_back(std::move(sums[k]));
  }
  return sizes;
}

}  // namespace duet
