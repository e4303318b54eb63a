#include "measure/examine/hard_data.h"

#include <cmath>
#include <limits>
#include <random>

#include "core/storage.h"

namespace duet {
namespace {

constexpr double kSmallChannel = 1e-6;

constexpr double kDenormal = 1e-40, kFarMean = 4000, kFaint = 1e-3;

enum class RowKind { kTies, kNegative, kFarNegative, kPositive, kFarMean, kFaint };

std::vector<double> ties_for(const Layer& layer, bool finite) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0.0, -0.0,  0.5,    0.5,   -0.5,      1,         1,
                                -1,  1e-20, -1e-20, 2e-20, kDenormal, -kDenormal};
  // Not in sums of products: there one large term hides what becomes of all others. Of one sign,
  // as large ones that cancel leave an average of nothing but their rounding.
  if (layer.parameters().empty()) values.insert(values.end(), {1e4, 2e4, 1e-6, -1e-6});
  if (!finite) values.insert(values.end(), {std::numeric_limits<double>::quiet_NaN(), kInfinity});
  // The largest value of a window of nothing but -infinity is -FLT_MAX to cuDNN 9.
  if (!finite && layer.type() != "max_pool2d") values.push_back(-kInfinity);
  return values;
}

// Of few bits, so that differences of two are exact.
double of_few_bits(double value) { return rounded_to(DType::kBFloat16, value); }
double far_from_zero(double little) { return kFarMean + std::round(little * 1024) / 1024; }

// Draws what stands in x.
class HardValues {
 public:
  HardValues(const Layer& layer, bool finite, uint64_t seed)
      : random_(static_cast<uint32_t>(seed)), ties_(ties_for(layer, finite)) {}

  // `x` is a random value. Half of the ties are, so that few outputs are exact.
  double draw(RowKind kind, double x) {
    const uint32_t drawn = random_();
    const double share = static_cast<double>(drawn) / 0x1p32;
    switch (kind) {
      case RowKind::kTies:
        return drawn % 2 ? ties_[drawn / 2 % ties_.size()] : x;
      case RowKind::kNegative:
        return of_few_bits(-20 * std::pow(50, share));
      case RowKind::kFarNegative:  // where exp() is 0
        return of_few_bits(-200 * std::pow(5, share));
      case RowKind::kPositive:
        return of_few_bits(10 * std::pow(100, share));
      case RowKind::kFarMean:
        return far_from_zero(x);
      case RowKind::kFaint:
        return kFaint * x;
    }
    return x;
  }

  void draw_zeros(std::vector<double>& values, DType dtype) {
    if (values.size() < static_cast<size_t>(kHardRows)) return;  // a loss's only one
    for (double& value : values) {
      const uint32_t drawn = random_() % 32;
      if (drawn < 4) value = drawn % 2 ? -0.0 : 0.0;
      if (drawn == 4) value = rounded_to(dtype, kDenormal);
    }
  }

 private:
  std::mt19937 random_;
  const std::vector<double> ties_;
};

bool normalises_over_batch(const Layer& layer) {
  return layer.cancels() && layer.type().starts_with("batch_norm");
}

int64_t channel_of(const TensorDesc& desc, size_t i) {
  const Shape& s = desc.shape;
  const bool inside = s.rank() == 2 || desc.layout == Layout::kNHWC;
  const int64_t inner = inside ? 1 : desc.elements() / s[0] / s[1];
  return static_cast<int64_t>(i) / inner % s[1];
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
  HardValues hard(layer, finite, seed);
  const bool products = weight_of(layer) != nullptr, by_channel = normalises_over_batch(layer);
  const bool has_rows = finite && !products && !by_channel;
  for (size_t i = 0; i < data.x.size(); ++i) {
    const TensorDesc& x = layer.inputs()[i];
    if (!is_float(x.dtype)) {
      for (size_t k = 3; k < data.x[i].size() && !layer.takes_labels(); k += 5) data.x[i][k] = -1;
      continue;
    }
    const auto row = static_cast<size_t>(x.elements() / x.shape[0]);
    for (size_t k = 0; k < data.x[i].size(); ++k) {
      const auto kind = static_cast<RowKind>(has_rows ? k / row % kHardRows : 0);
      double value = hard.draw(kind, data.x[i][k]);
      // In bfloat16 that channel would be constant, and its deviation nothing but rounding.
      const bool far = by_channel && x.dtype != DType::kBFloat16 && channel_of(x, k) % 3 == 2;
      if (far) value = far_from_zero(value);
      data.x[i][k] = rounded_to(x.dtype, value);
    }
  }
  for (size_t i = 0; i < data.dy.size(); ++i) {
    hard.draw_zeros(data.dy[i], layer.outputs()[i].dtype);
  }
  if (!products) return data;
  for (size_t i = 0; i < data.w.size(); ++i) {
    const TensorDesc& w = layer.parameters()[i].desc;
    hard.draw_zeros(data.w[i], w.dtype);
    const int64_t channels = w.shape[0];
    shrink(data.w[i], w.dtype, channels, static_cast<int64_t>(data.w[i].size()) / channels);
  }
  for (size_t i = 0; i < data.dy.size(); ++i) {
    const TensorDesc& y = layer.outputs()[i];
    for (size_t k = 0; k < data.dy[i].size() && y.shape.rank() > 1; ++k) {
      if (channel_of(y, k) % 2) data.dy[i][k] = rounded_to(y.dtype, data.dy[i][k] * kSmallChannel);
    }
  }
  return data;
}

}  // namespace duet
