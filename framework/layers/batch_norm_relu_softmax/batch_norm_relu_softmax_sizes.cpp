// What rounding decides in a batch_norm1d_relu_softmax, and what its rounding is held to.
#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"
#include "layers/rounding.h"

namespace duet {
namespace {

using Values = std::vector<std::vector<double>>;

/// One row: y, and the squares of its sizes. `z` is what relu reads, `size` the size of each z.
/// With r = relu(z), an error e of r makes one of y * (e - sum over the row of y * e).
struct Row {
  std::vector<double> y, y_squares;

  Row(const double* z, const double* size, int64_t features) : y(features), y_squares(features) {
    double max = 0, sum = 0, together = 0;
    for (int64_t j = 0; j < features; ++j) max = std::max(max, z[j]);
    for (int64_t j = 0; j < features; ++j) sum += y[j] = std::exp(std::max(z[j], 0.0) - max);
    const auto of_relu = [&](int64_t j) { return z[j] > 0 ? square(size[j]) : 0; };
    for (int64_t j = 0; j < features; ++j) {
      y[j] /= sum;
      together += square(y[j]) * of_relu(j);
    }
    for (int64_t j = 0; j < features; ++j) {
      const double exponent = std::max(z[j], 0.0) - max;
      y_squares[j] = square(y[j]) * (1 + square(exponent) + of_relu(j) + together);
    }
  }
};

}  // namespace

void BatchNormReluSoftmaxLayer::settle(const Values& x, const Values& w, Values& dy) const {
  const BatchNormProblem& norm = problem().norm;
  const int64_t features = norm.channels();
  for (const bool training : {true, false}) {
    if (training && norm.count() == 1) continue;
    const std::vector<double> z = batch_norm_values(norm, training, x, w);
    const std::vector<double> size = batch_norm_sizes(norm, Pass::kForward, training, x, w, {})[0];
    for (int64_t first = 0; first < norm.x.elements(); first += features) {
      bool undecided = false;
      for (int64_t i = first; i < first + features; ++i) {
        undecided |= std::abs(z[i]) < kBatchNormTie * size[i];
      }
      if (undecided) std::fill_n(dy[0].begin() + first, features, 0.0);
    }
  }
}

Values BatchNormReluSoftmaxLayer::sizes(Pass pass, bool training, const Values& x, const Values& w,
                                        const Values& dy) const {
  const BatchNormProblem& norm = problem().norm;
  const int64_t features = norm.channels();
  Values sizes = batch_norm_sizes(norm, Pass::kForward, training, x, w, {});
  const std::vector<double> z = batch_norm_values(norm, training, x, w);
  // What comes through the softmax and relu, and the squares of its sizes; in forward y's sizes.
  Values dz = {std::vector<double>(z.size())};
  std::vector<double> dz_squares(z.size());
  constexpr int64_t kOperations = 100;
  parallel_for(norm.count(), norm.x.elements() * kOperations, [&](int64_t number) {
    const int64_t first = number * features;
    const Row row(z.data() + first, sizes[0].data() + first, features);
    double product = 0, product_squares = 0;
    for (int64_t j = 0; j < features && pass != Pass::kForward; ++j) {
      product += row.y[j] * dy[0][first + j];
      product_squares += row.y_squares[j] * square(dy[0][first + j]);
    }
    product_squares += square(product);
    for (int64_t j = 0; j < features; ++j) {
      const int64_t i = first + j;
      if (pass == Pass::kForward) {
        sizes[0][i] = size_of_squares(row.y_squares[j]);
      } else if (z[i] > 0) {
        const double difference = dy[0][i] - product;
        dz[0][i] = row.y[j] * difference;
        dz_squares[i] = row.y_squares[j] * square(difference) +
                        square(row.y[j]) * (square(dy[0][i]) + product_squares);
      }
    }
  });
  if (pass == Pass::kForward) return sizes;
  return batch_norm_sizes(norm, pass, training, x, w, dz, &dz_squares);
}

}  // namespace duet
