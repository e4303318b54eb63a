#include "measure/hard_data.h"

#include <limits>
#include <random>

#include "core/storage.h"

namespace duet {
namespace {

constexpr double kSmallChannel = 1e-6;

std::vector<double> values_for(const Layer& layer, bool finite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0, -0.0, 0.5, 0.5, -0.5, 1, 1, -1, 1e-20, -1e-20, 2e-20};
  // Not in sums of products: there one large term hides what becomes of all others. Of one sign,
  // as large ones that cancel leave an average of nothing but their rounding.
  if (layer.parameters().empty()) values.insert(values.end(), {1e4, 2e4, 1e-6, -1e-6});
  if (!finite) {
    values.insert(values.end(), {std::numeric_limits<double>::quiet_NaN(), kInfinity, -kInfinity});
  }
  return values;
}

// Every second of the `channels` parts of a tensor that has so many, each `inner` values long.
void shrink(std::vector<double>& values, DType dtype, int64_t channels, int64_t inner) {
  for (size_t i = 0; i < values.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / inner % channels;
    if (channel % 2) values[i] = rounded_to(dtype, values[i] * kSmallChannel);
  }
}

}  // namespace

LayerData hard_data(const Layer& layer, bool finite, uint64_t seed) {
  LayerData data = random_data(layer, seed);
  std::mt19937 random(static_cast<uint32_t>(seed));
  const std::vector<double> values = values_for(layer, finite);
  for (size_t i = 0; i < data.x.size(); ++i) {
    const DType dtype = layer.inputs()[i].dtype;
    if (!is_float(dtype)) continue;
    // Half of them random, so that few outputs are exact.
    for (double& x : data.x[i]) {
      const uint32_t drawn = random();
      if (drawn % 2) x = rounded_to(dtype, values[drawn / 2 % values.size()]);
    }
  }
  if (layer.parameters().empty()) return data;
  for (size_t i = 0; i < data.w.size(); ++i) {
    const TensorDesc& w = layer.parameters()[i].desc;
    const int64_t channels = w.shape[0];
    shrink(data.w[i], w.dtype, channels, static_cast<int64_t>(data.w[i].size()) / channels);
  }
  for (size_t i = 0; i < data.dy.size(); ++i) {
    const TensorDesc& y = layer.outputs()[i];
    if (data.dy[i].empty() || y.shape.rank() < 2) continue;
    const int64_t channels = y.shape[1];
    const bool inside = y.shape.rank() == 2 || y.layout == Layout::kNHWC;
    shrink(data.dy[i], y.dtype, channels, inside ? 1 : y.elements() / y.shape[0] / channels);
  }
  return data;
}

}  // namespace duet
