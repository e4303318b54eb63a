#include "layers/batch_norm_relu/batch_norm_relu.h"

#include <cmath>

#include "layers/batch_norm_relu/batch_norm_relu_impls.h"

namespace duet {
namespace {

using Values = std::vector<std::vector<double>>;

// Of the size of what batch normalisation subtracts; no element may err by a fifth of it
// (layers/rounding.h).
constexpr double kTie = 1e-4;

template <int rank>
std::unique_ptr<Layer> make_layer(ConfigReader& reader) {
  return std::make_unique<BatchNormReluLayer>(rank, BatchNormParams::read(reader));
}

std::vector<ImplInfo> infos() { return BatchNormReluLayer::infos(batch_norm_relu_impls()); }

}  // namespace

BatchNormReluLayer::BatchNormReluLayer(int rank, const BatchNormParams& params)
    : BatchNormLayer(batch_norm_relu_impls(), rank, params) {}

BatchNormProblem BatchNormReluLayer::infer(const std::vector<TensorDesc>& inputs,
                                           const LayerOptions& options) {
  BatchNormProblem problem = BatchNormLayer::infer(inputs, options);
  problem.relu = true;
  return problem;
}

void BatchNormReluLayer::settle(const Values& x, const Values& w, Values& dy) const {
  for (const bool training : {true, false}) {
    if (training && problem().count() == 1) continue;
    const std::vector<double> z = normalised(training, x, w);
    const std::vector<double> size = BatchNormLayer::sizes(Pass::kForward, training, x, w, dy)[0];
    for (size_t i = 0; i < z.size(); ++i) {
      if (std::abs(z[i]) < kTie * size[i]) dy[0][i] = 0;
    }
  }
}

Values BatchNormReluLayer::sizes(Pass pass, bool training, const Values& x, const Values& w,
                                 const Values& dy) const {
  if (pass == Pass::kForward) return BatchNormLayer::sizes(pass, training, x, w, dy);
  const std::vector<double> z = normalised(training, x, w);
  Values dz = dy;
  for (size_t i = 0; i < z.size(); ++i) {
    if (z[i] <= 0) dz[0][i] = 0;
  }
  return BatchNormLayer::sizes(pass, training, x, w, dz);
}

const LayerType& batch_norm1d_relu_type() {
  static const LayerType type = {
      "batch_norm1d_relu",           "batch_norm1d and relu in one", make_layer<2>, infos, {},
      {{{"batch_norm1d"}, {"relu"}}}};
  return type;
}

const LayerType& batch_norm2d_relu_type() {
  static const LayerType type = {
      "batch_norm2d_relu",           "batch_norm2d and relu in one", make_layer<4>, infos, {},
      {{{"batch_norm2d"}, {"relu"}}}};
  return type;
}

}  // namespace duet
