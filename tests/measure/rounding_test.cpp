// The table of limits: what a sound implementation may leave, however odd, and what it may not.
#include "layers/rounding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "measure/check/agreement.h"
#include "support/layer_case.h"

namespace duet {
namespace {

double rounded(double value, int bits) {  // to nearest, of a significand of `bits`
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent;
  const double mantissa = std::frexp(value, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}
constexpr int kTf32Bits = 11, kBf16Bits = 8;

/// A matrix product of small matrices in float: a b, both row-major.
template <int m, int k, int n>
void multiply(const float (&a)[m][k], const float (&b)[k][n], float (&result)[m][n]) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) {
      result[i][j] = 0;
      for (int l = 0; l < k; ++l) result[i][j] += a[i][l] * b[l][j];
    }
  }
}
template <int m, int n>
void transpose(const float (&a)[m][n], float (&result)[n][m]) {
  for (int i = 0; i < m; ++i) {
    for (int j = 0; j < n; ++j) result[j][i] = a[i][j];
  }
}

/// m a m^T
template <int m, int k>
void transform(const float (&matrix)[m][k], const float (&a)[k][k], float (&result)[m][m]) {
  float half[m][k], transposed[k][m];
  multiply(matrix, a, half);
  transpose(matrix, transposed);
  multiply(half, transposed, result);
}

// A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks, 2015, F(4x4, 3x3).
constexpr float kInput[6][6] = {{4, 0, -5, 0, 1, 0},  {0, -4, -4, 1, 1, 0}, {0, 4, -4, -1, 1, 0},
                                {0, -2, -1, 2, 1, 0}, {0, 2, -1, -2, 1, 0}, {0, 4, 0, -5, 0, 1}};
constexpr float kFilter[6][3] = {{1 / 4.0f, 0, 0},
                                 {-1 / 6.0f, -1 / 6.0f, -1 / 6.0f},
                                 {-1 / 6.0f, 1 / 6.0f, -1 / 6.0f},
                                 {1 / 24.0f, 1 / 12.0f, 1 / 6.0f},
                                 {1 / 24.0f, -1 / 12.0f, 1 / 6.0f},
                                 {0, 0, 1}};
constexpr float kOutput[4][6] = {
    {1, 1, 1, 1, 1, 0}, {0, 1, -1, 2, -2, 0}, {0, 1, 1, 4, 4, 0}, {0, 1, -1, 8, -8, 1}};

/// The forward pass of an unpadded 3x3 convolution, P and Q multiples of 4, by Winograd's
/// F(4x4, 3x3) in float: sound, and the least exact of all that are in use.
std::vector<double> winograd(const Layer& layer, const LayerData& data) {
  const TensorDesc &x = layer.inputs()[0], &y = layer.outputs()[0];
  const TensorDesc& w = layer.parameters()[0].desc;
  std::vector<double> result(static_cast<size_t>(y.elements()));
  for (int64_t n = 0; n < y.shape[0]; ++n) {
    for (int64_t k = 0; k < y.shape[1]; ++k) {
      for (int64_t p = 0; p < y.shape[2]; p += 4) {
        for (int64_t q = 0; q < y.shape[3]; q += 4) {
          float sums[6][6] = {};
          for (int64_t c = 0; c < x.shape[1]; ++c) {
            float tile[6][6], filter[3][3], a[6][6], b[6][6];
            for (int i = 0; i < 6; ++i) {
              for (int j = 0; j < 6; ++j) {
                tile[i][j] = static_cast<float>(data.x[0][offset_of(x, n, c, p + i, q + j)]);
              }
            }
            for (int i = 0; i < 3; ++i) {
              for (int j = 0; j < 3; ++j) {
                filter[i][j] = static_cast<float>(data.w[0][offset_of(w, k, c, i, j)]);
              }
            }
            transform(kInput, tile, a);
            transform(kFilter, filter, b);
            for (int i = 0; i < 6; ++i) {
              for (int j = 0; j < 6; ++j) sums[i][j] += a[i][j] * b[i][j];
            }
          }
          float outputs[4][4];
          transform(kOutput, sums, outputs);
          for (int i = 0; i < 4; ++i) {
            for (int j = 0; j < 4; ++j) {
              result[offset_of(y, n, k, p + i, q + j)] =
                  outputs[i][j] + static_cast<float>(data.w[1][k]);
            }
          }
        }
      }
    }
  }
  return result;
}

LayerCase image_case(int64_t n, int64_t c, int64_t size, int64_t k) {
  return {.name = "",
          .keys = {{"out_channels", std::to_string(k)}, {"kernel", "3"}},
          .x = {{{n, c, size, size}}}};
}

/// The inputs that are hardest to tell narrow arithmetic and Winograd's transforms apart on.
enum class Images { kNormal, kRectified, kPositive, kBrightPixels, kFaintChannels };
void make(Images images, const Layer& layer, std::vector<double>& x) {
  const Shape& s = layer.inputs()[0].shape;
  std::mt19937 random(11);
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t channel = static_cast<int64_t>(i) / (s[2] * s[3]) % s[1];
    if (images == Images::kRectified) x[i] = std::max(x[i], 0.0);
    if (images == Images::kPositive) x[i] = std::abs(x[i]);
    if (images == Images::kBrightPixels) x[i] = random() % 50 == 0 ? 8 * x[i] : 0;
    if (images == Images::kFaintChannels && channel % 2 == 1) x[i] *= 0x1p-20;
  }
}

void round(int bits, std::vector<std::vector<double>>& tensors) {
  for (auto& values : tensors) {
    for (double& value : values) value = rounded(value, bits);
  }
}

/// What the reference makes of data whose factors are rounded.
Reference with_rounded_factors(const Layer& layer, LayerData data, int bits) {
  for (auto* tensors : {&data.x, &data.w, &data.dy}) round(bits, *tensors);
  return run_reference(layer, data, {}, layer.passes());
}

double share(const Layer& layer, Pass pass, const NamedValues& expected,
             const std::vector<double>& found, Math math = Math::kFP32) {
  const TensorDesc desc = {expected.desc.shape};  // in float32
  const Limit limit = limit_of(layer, pass, desc, expected.parameter, math);
  return compare(expected.values, found, limit, expected.sizes).share_of_limit;
}

/// Calls check(layer, data) for convolutions of one to 256 channels, on every kind of images.
template <class Check>
void on_hard_images(const Check& check) {
  for (const auto& [n, c, size, k] : {std::array<int64_t, 4>{4, 1, 30, 8},
                                      {2, 3, 30, 8},
                                      {1, 16, 30, 8},
                                      {1, 64, 18, 16},
                                      {1, 256, 10, 16}}) {
    for (Images images : {Images::kNormal, Images::kRectified, Images::kPositive,
                          Images::kBrightPixels, Images::kFaintChannels}) {
      const auto layer = make_layer("conv2d", image_case(n, c, size, k));
      SCOPED_TRACE(layer->problem_text() + ", images " + std::to_string(static_cast<int>(images)));
      LayerData data = random_data(*layer, 5);
      make(images, *layer, data.x[0]);
      check(*layer, data);
    }
  }
}

TEST(Rounding, AcceptsWinogradAndRefusesNarrowFactorsOnHardImages) {
  on_hard_images([](const Layer& layer, LayerData& data) {
    const Reference reference = run_reference(layer, data, {}, layer.passes());
    const NamedValues& y = reference.of(Pass::kForward)[0];
    const double sound = share(layer, Pass::kForward, y, winograd(layer, data));
    RecordProperty("percent_of_limit", std::to_string(100 * sound));
    EXPECT_LT(sound, 1);
    EXPECT_GT(sound, 0.05) << "the limit is far too wide";
    for (const int bits : {kTf32Bits, kBf16Bits}) {
      const Reference narrow = with_rounded_factors(layer, data, bits);
      for (Pass pass : layer.passes()) {
        const NamedValues& output = reference.of(pass)[0];
        EXPECT_GT(share(layer, pass, output, narrow.of(pass)[0].values), 2)
            << bits << " bits, " << to_string(pass);
      }
    }
  });
}

// In bf16 x and dy are stored in 8 bits, w in 24; matrix units take w in 8 bits too, and nothing is
// to be narrower.
TEST(Rounding, AcceptsWeightsInBf16AndNothingNarrower) {
  on_hard_images([](const Layer& layer, LayerData& data) {
    round(kBf16Bits, data.x);
    round(kBf16Bits, data.dy);
    const Reference reference = run_reference(layer, data, {}, layer.passes());
    const Reference narrow = with_rounded_factors(layer, data, kBf16Bits);
    const Reference narrower = with_rounded_factors(layer, data, kBf16Bits - 1);
    for (Pass pass : {Pass::kForward, Pass::kBackwardData}) {
      const NamedValues& output = reference.of(pass)[0];
      const double sound = share(layer, pass, output, narrow.of(pass)[0].values, Math::kBF16);
      RecordProperty("percent_of_limit", std::to_string(100 * sound));
      EXPECT_LT(sound, 0.9) << to_string(pass);
      EXPECT_GT(sound, 0.3) << to_string(pass) << ": the limit is far too wide";
      EXPECT_GT(share(layer, pass, output, narrower.of(pass)[0].values, Math::kBF16), 1)
          << to_string(pass);
    }
    // dw has float32's limit, and may be rounded.
    const NamedValues& dw = reference.of(Pass::kBackwardFilter)[0];
    std::vector<std::vector<double>> stored = {dw.values};
    round(kBf16Bits, stored);
    EXPECT_LT(share(layer, Pass::kBackwardFilter, dw, stored[0], Math::kBF16), 1);
    EXPECT_GT(share(layer, Pass::kBackwardFilter, dw, narrower.of(Pass::kBackwardFilter)[0].values,
                    Math::kBF16),
              2);
  });
}

TEST(Rounding, RefusesNarrowFactorsInABlock) {
  LayerCase c = image_case(2, 4, 14, 8);
  c.keys.emplace_back("pool_kernel", "2");
  const auto layer = make_layer("conv2d_pool_relu", c);
  LayerData data = random_data(*layer, 5);
  layer->settle(data.x, data.w, data.dy);
  const Reference reference = run_reference(*layer, data, {}, layer->passes());
  for (const int bits : {kTf32Bits, kBf16Bits}) {
    const Reference narrow = with_rounded_factors(*layer, data, bits);
    for (Pass pass : layer->passes()) {
      EXPECT_GT(share(*layer, pass, reference.of(pass)[0], narrow.of(pass)[0].values), 5)
          << bits << " bits, " << to_string(pass);
    }
  }
}

// Sums of a quarter of a million terms, by a plain loop in float.
TEST(Rounding, TellsTf32FromAPlainLoopInLongSums) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "3"}}, .x = {{{1 << 18, 5}}}});
  const LayerData data = random_data(*layer, 5);
  const Pass pass = Pass::kBackwardFilter;
  const NamedValues dw = run_reference(*layer, data, {}, {pass}).of(pass)[0];
  std::vector<double> plain;
  for (int64_t o = 0; o < 3; ++o) {
    for (int64_t i = 0; i < 5; ++i) {
      float sum = 0;
      for (int64_t n = 0; n < 1 << 18; ++n) {
        sum += static_cast<float>(data.dy[0][n * 3 + o]) * static_cast<float>(data.x[0][n * 5 + i]);
      }
      plain.push_back(sum);
    }
  }
  EXPECT_LT(share(*layer, pass, dw, plain), 1);
  EXPECT_GT(
      share(*layer, pass, dw, with_rounded_factors(*layer, data, kTf32Bits).of(pass)[0].values),
      1.5);
}

TEST(Rounding, GrowsWithTheTermsUpToABound) {
  EXPECT_DOUBLE_EQ(rounding_limit(Math::kFP32, 9), 0x1p-24 * (4 * 3 + 16));
  EXPECT_DOUBLE_EQ(rounding_limit(Math::kFP32, 10000), 0x1p-24 * (4 * 100 + 16));
  for (const double terms : {1e6, 1e8, 1e12}) {
    EXPECT_DOUBLE_EQ(rounding_limit(Math::kFP32, terms), 7e-5);
    EXPECT_LT(rounding_limit(Math::kTF32, terms), 1.1e-3);  // bf16 leaves 1.6e-3
    EXPECT_LT(rounding_limit(Math::kBF16, terms), 2.1e-3);
  }
}

// A row of inputs and a filter much smaller than the others: their outputs must be as exact as they
// can be, though wrong ones would not show in the RMS of all.
TEST(Rounding, HoldsSmallElementsToTheirOwnSize) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "40"}}, .x = {{{50, 100}}}});
  LayerData data = random_data(*layer, 5);
  for (int64_t i = 0; i < 100; ++i) data.x[0][7 * 100 + i] *= 0x1p-20;
  for (double& b : data.w[1]) b = 0;
  const NamedValues y = run_reference(*layer, data, {}, {Pass::kForward}).of(Pass::kForward)[0];
  std::vector<double> found = y.values;
  EXPECT_EQ(share(*layer, Pass::kForward, y, found), 0);
  found[7 * 40 + 3] += 1e-3 * y.sizes[7 * 40 + 3];
  EXPECT_GT(share(*layer, Pass::kForward, y, found), 2);
}

// 1e-20 by 1e-20 is below the normal numbers of float32: zero is as good a result.
TEST(Rounding, AllowsUnderflow) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "4"}}, .x = {{{3, 5}}}});
  LayerData data = random_data(*layer, 5);
  for (auto* tensors : {&data.x, &data.w}) {
    for (auto& values : *tensors) {
      for (double& value : values) value *= 1e-20;
    }
  }
  for (double& b : data.w[1]) b = 0;
  const NamedValues y = run_reference(*layer, data, {}, {Pass::kForward}).of(Pass::kForward)[0];
  EXPECT_LT(share(*layer, Pass::kForward, y, std::vector<double>(12, 0.0)), 1);
}

TEST(Rounding, SizesAreTheRootsOfTheSquares) {
  const auto layer =
      make_layer("linear", {.name = "", .keys = {{"out_features", "4"}}, .x = {{{3, 5}}}});
  const LayerData data = random_data(*layer, 5);
  const Reference reference = run_reference(*layer, data, {}, layer->passes());
  const NamedValues& y = reference.of(Pass::kForward)[0];
  for (int64_t n = 0; n < 3; ++n) {
    for (int64_t o = 0; o < 4; ++o) {
      double sum = data.w[1][o], squares = sum * sum;
      for (int64_t i = 0; i < 5; ++i) {
        const double product = data.x[0][n * 5 + i] * data.w[0][o * 5 + i];
        sum += product;
        squares += product * product;
      }
      EXPECT_DOUBLE_EQ(y.sizes[n * 4 + o], std::sqrt(squares + sum * sum));
    }
  }
}

// In an image the mean of the squares over the channel is added, and a little of that over all.
TEST(Rounding, SizesOfAnImageKnowItsChannel) {
  for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    const auto layer = make_layer("conv2d", {.name = "",
                                             .keys = {{"out_channels", "2"}, {"kernel", "1"}},
                                             .x = {{{2, 1, 2, 3}, DType::kFloat32, layout}}});
    const LayerData data = random_data(*layer, 5);
    const NamedValues y = run_reference(*layer, data, {}, {Pass::kForward}).of(Pass::kForward)[0];
    const TensorDesc &in = layer->inputs()[0], &out = layer->outputs()[0];
    const auto square = [&](int64_t n, int64_t k, int64_t i) {
      const double product = data.x[0][offset_of(in, n, 0, i / 3, i % 3)] * data.w[0][k];
      return product * product + data.w[1][k] * data.w[1][k];
    };
    double all = 0;
    for (int64_t i = 0; i < 24; ++i) all += square(i / 12, i / 6 % 2, i % 6) / 24;
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t k = 0; k < 2; ++k) {
        double mean = kMixedChannels * kMixedChannels * all;
        for (int64_t i = 0; i < 6; ++i) mean += square(n, k, i) / 6;
        for (int64_t i = 0; i < 6; ++i) {
          const int64_t at = offset_of(out, n, k, i / 3, i % 3);
          EXPECT_DOUBLE_EQ(y.sizes[at],
                           std::sqrt(square(n, k, i) + mean + y.values[at] * y.values[at]));
        }
      }
    }
  }
}

}  // namespace
}  // namespace duet
