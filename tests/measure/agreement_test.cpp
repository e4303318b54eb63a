// The check has checks: every way in which a result can be wrong must fail it.
#include "measure/check/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "core/storage.h"
#include "support/layer_case.h"
#include "support/tf32.h"

namespace duet {
namespace {

constexpr size_t kCount = 4096;
constexpr int kTerms = 576;

const double kNaN = std::numeric_limits<double>::quiet_NaN();

/// Dot products of kTerms random terms: in double, in float, and in float with TF32 operands.
struct Products {
  std::vector<double> exact, fp32, tf32_operands, other_data;

  Products() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < kCount; ++i) {
      double e = 0, o = 0;
      float f = 0, t = 0;
      for (int k = 0; k < kTerms; ++k) {
        const float a = normal(random), b = normal(random);
        e += static_cast<double>(a) * b;
        f += a * b;
        t += tf32(a) * tf32(b);
        o += static_cast<double>(normal(random)) * b;
      }
      exact.push_back(e);
      fp32.push_back(f);
      tf32_operands.push_back(t);
      other_data.push_back(o);
    }
  }
};

const Products& products() {
  static const Products p;
  return p;
}

LayerCase relu_case() { return {.name = "relu", .x = {{{4, 4}}}}; }

class Limits : public testing::TestWithParam<Limit> {
 protected:
  bool accepts(const std::vector<double>& found) const {
    return compare(products().exact, found, GetParam()).agrees;
  }
};

TEST_P(Limits, AcceptTheReferenceItself) {
  EXPECT_TRUE(accepts(products().exact));
  EXPECT_EQ(compare(products().exact, products().exact, GetParam()).share_of_limit, 0);
}

TEST_P(Limits, RefuseZeros) { EXPECT_FALSE(accepts(std::vector<double>(kCount, 0.0))); }

TEST_P(Limits, RefuseNaN) {
  EXPECT_FALSE(accepts(std::vector<double>(kCount, kNaN)));
  auto one = products().exact;
  one[kCount / 2] = kNaN;
  const Agreement a = compare(products().exact, one, GetParam());
  EXPECT_FALSE(a.agrees);
  EXPECT_EQ(a.worst, static_cast<int64_t>(kCount / 2));
}

TEST_P(Limits, RefuseInfinity) {
  auto one = products().exact;
  one[3] = std::numeric_limits<double>::infinity();
  EXPECT_FALSE(accepts(one));
}

TEST_P(Limits, RefuseStaleResults) { EXPECT_FALSE(accepts(products().other_data)); }

TEST_P(Limits, RefuseShiftedResults) {
  auto shifted = products().exact;
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  EXPECT_FALSE(accepts(shifted));
}

TEST_P(Limits, RefuseHalfWrittenResults) {
  auto poisoned = products().exact, zeroed = products().exact;
  std::fill(poisoned.begin() + kCount / 2, poisoned.end(), kNaN);
  std::fill(zeroed.begin() + kCount / 2, zeroed.end(), 0.0);
  EXPECT_FALSE(accepts(poisoned));
  EXPECT_FALSE(accepts(zeroed));
}

TEST_P(Limits, RefuseTheLastElementUnwritten) {
  auto found = products().exact;
  found.back() = 0;
  EXPECT_FALSE(accepts(found));
}

TEST_P(Limits, RefuseTF32Rounding) {
  EXPECT_FALSE(accepts(products().tf32_operands));
  std::vector<double> rounded;
  for (double v : products().exact) rounded.push_back(tf32(static_cast<float>(v)));
  EXPECT_FALSE(accepts(rounded));
}

TEST_P(Limits, RefuseDoubledResults) {  // += where = was meant
  auto found = products().exact;
  for (double& v : found) v *= 2;
  EXPECT_FALSE(accepts(found));
}

INSTANTIATE_TEST_SUITE_P(Agreement, Limits,
                         testing::Values(Limit::exact(), Limit::elementwise(),
                                         Limit::of_rms(rounding_limit(Math::kFP32, kTerms))));

TEST(Agreement, ProductLimitAcceptsFloatSums) {
  const Limit limit = Limit::of_rms(rounding_limit(Math::kFP32, kTerms));
  const Agreement a = compare(products().exact, products().fp32, limit);
  EXPECT_TRUE(a.agrees) << a.to_string();
  EXPECT_GT(a.share_of_limit, 0.05) << "the limit is far too wide";
}

TEST(Agreement, TF32LimitAcceptsTF32AndNothingCoarser) {
  const Limit limit = Limit::of_rms(rounding_limit(Math::kTF32, kTerms));
  EXPECT_TRUE(compare(products().exact, products().tf32_operands, limit).agrees);
  EXPECT_FALSE(compare(products().exact, products().other_data, limit).agrees);
}

std::vector<double> in_bfloat16(std::vector<double> values) {
  for (double& v : values) v = rounded_to(DType::kBFloat16, v);
  return values;
}

TEST(Agreement, StoringBfloat16IsAllowedOnce) {
  for (Limit limit : {Limit::of_rms(rounding_limit(Math::kFP32, kTerms)), Limit::elementwise()}) {
    SCOPED_TRACE(limit.to_string());
    EXPECT_FALSE(compare(products().exact, in_bfloat16(products().exact), limit).agrees);
    limit.storage = storage_rounding(DType::kBFloat16);
    const Agreement once = compare(products().exact, in_bfloat16(products().exact), limit);
    EXPECT_TRUE(once.agrees) << once.to_string();
    EXPECT_GT(once.share_of_limit, 0.9);
    std::vector<double> twice = in_bfloat16(products().exact);
    for (double& v : twice) v = rounded_to(DType::kBFloat16, v * (1 + 0x1p-8));
    EXPECT_FALSE(compare(products().exact, twice, limit).agrees);
    EXPECT_FALSE(compare(products().exact, products().other_data, limit).agrees);
    EXPECT_FALSE(compare(products().exact, std::vector<double>(kCount), limit).agrees);
  }
}

// Sums of x and w as they are, or of w rounded, in float32; or after every product rounded to what
// y is stored in.
TEST(Agreement, Bf16SumsInFloat32) {
  std::mt19937 random(8);
  std::normal_distribution<double> normal;
  std::vector<double> exact, in_float, of_rounded, in_storage;
  for (size_t i = 0; i < kCount; ++i) {
    double e = 0, s = 0;
    float f = 0, r = 0;
    for (int k = 0; k < kTerms; ++k) {
      const double x = rounded_to(DType::kBFloat16, normal(random));
      const double w = rounded_to(DType::kFloat32, normal(random));
      e += x * w;
      f += static_cast<float>(x) * static_cast<float>(w);
      r += static_cast<float>(x * rounded_to(DType::kBFloat16, w));
      s = rounded_to(DType::kBFloat16, s + x * w);
    }
    exact.push_back(e);
    in_float.push_back(f);
    of_rounded.push_back(r);
    in_storage.push_back(s);
  }
  Limit limit = Limit::of_rms(rounding_limit(Math::kBF16, kTerms));
  limit.storage = storage_rounding(DType::kBFloat16);
  EXPECT_TRUE(compare(exact, in_bfloat16(in_float), limit).agrees);
  EXPECT_TRUE(compare(exact, in_bfloat16(of_rounded), limit).agrees);
  EXPECT_FALSE(compare(exact, in_storage, limit).agrees);
}

TEST(Agreement, ExactLimitRefusesTheLastBit) {
  EXPECT_FALSE(compare({1.0}, {std::nextafter(1.0f, 2.0f)}, Limit::exact()).agrees);
  EXPECT_TRUE(compare({1.0, kNaN}, {1.0, kNaN}, Limit::exact()).agrees);
}

TEST(Agreement, ElementwiseLimitRefusesZerosForSmallValues) {
  const std::vector<double> small(100, 1e-7);
  EXPECT_FALSE(compare(small, std::vector<double>(100, 0.0), Limit::elementwise()).agrees);
}

TEST(Agreement, ZeroReferenceAcceptsOnlyZeroUnderTheRmsLimit) {
  EXPECT_TRUE(compare({0, 0}, {0, 0}, Limit::of_rms(1e-6)).agrees);
  EXPECT_FALSE(compare({0, 0}, {0, 1e-9}, Limit::of_rms(1e-6)).agrees);
}

TEST(Agreement, InfinitiesAndNaNsAgreeWithThemselvesAlone) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(compare({inf, -inf, kNaN, 1}, {inf, -inf, kNaN, 1}, Limit::elementwise()).agrees);
  EXPECT_FALSE(compare({inf}, {-inf}, Limit::elementwise()).agrees);
  EXPECT_FALSE(compare({kNaN}, {1}, Limit::elementwise()).agrees);
}

TEST(Agreement, TellsTheWorstElement) {
  const TensorDesc nhwc{{2, 3, 4, 5}, DType::kFloat32, Layout::kNHWC};
  EXPECT_EQ(index_text(nhwc, offset_of(nhwc, 1, 2, 3, 4)), "[n=1 c=2 h=3 w=4]");
  const TensorDesc nchw{{2, 3, 4, 5}};
  EXPECT_EQ(index_text(nchw, offset_of(nchw, 1, 0, 2, 1)), "[n=1 c=0 h=2 w=1]");
  EXPECT_EQ(index_text({{3, 4}}, 7), "[1,3]");
  const Agreement a = compare({1, 2, 3}, {1, 2.5, 3}, Limit::elementwise());
  EXPECT_EQ(a.worst, 1);
  EXPECT_EQ(a.max_error, 0.5);
}

std::vector<double> with_errors(const std::vector<double>& of, double error) {
  auto found = of;
  for (size_t i = 0; i < found.size(); ++i) found[i] += i % 2 ? error : -error;
  return found;
}

TEST(Agreement, RmsLimitBoundsTheMeanAndTheWorstElement) {
  std::vector<double> expected(kCount);  // RMS 3
  for (size_t i = 0; i < kCount; ++i) expected[i] = i % 3 ? 3 : -3;
  const Limit limit = Limit::of_rms(1e-6);
  for (const double share : {0.9, 1.1}) {
    const Agreement all = compare(expected, with_errors(expected, share * 3e-6), limit);
    EXPECT_NEAR(all.rms_relative, share * 1e-6, 1e-12);
    EXPECT_NEAR(all.share_of_limit, share, 1e-6);
    EXPECT_EQ(all.agrees, share < 1);

    auto found = expected;
    found[77] += share * kWorstElement * 3e-6;  // a quarter of the limit as RMS
    const Agreement one = compare(expected, found, limit);
    EXPECT_NEAR(one.share_of_limit, share, 1e-6);
    EXPECT_EQ(one.agrees, share < 1);
    EXPECT_EQ(one.worst, 77);
  }
}

TEST(Agreement, ElementwiseLimitGrowsWithTheElement) {
  for (const double share : {0.9, 1.1}) {
    for (const double value : {0.0, 2.0, -1000.0}) {
      const std::vector<double> expected = {value, 1000};
      const double allowed = 1e-5 + 1.3e-6 * std::abs(value);
      const Agreement a = compare(expected, {value + share * allowed, 1000}, Limit::elementwise());
      EXPECT_NEAR(a.share_of_limit, share, 1e-6) << value;
      EXPECT_EQ(a.agrees, share < 1) << value;
    }
  }
}

struct TermsRow {
  std::string_view type;
  LayerCase layer;
  double forward, backward_data, backward_filter;  // terms of the sum that an output is
};

TEST(Agreement, ProductLimitsFollowFromTheTerms) {
  const TermsRow rows[] = {
      {"linear", {.name = "", .keys = {{"out_features", "50"}}, .x = {{{20, 300}}}}, 300, 50, 20},
      // c r s; k / groups r s; n p q
      {"conv2d",
       {.name = "",
        .keys = {{"out_channels", "12"}, {"kernel", "[3, 5]"}, {"groups", "2"}},
        .x = {{{7, 16, 10, 9}}}},
       8 * 15,
       6 * 15,
       7 * 8 * 5},
      {"conv2d",
       {.name = "", .keys = {{"out_channels", "1"}, {"kernel", "3"}}, .x = {{{1, 1, 4, 4}}}},
       9,
       9,
       4},
      {"linear", {.name = "", .keys = {{"out_features", "50"}}, .x = {{{1000000, 3}}}}, 3, 50, 1e6},
  };
  for (const TermsRow& row : rows) {
    const auto layer = make_layer(row.type, row.layer);
    SCOPED_TRACE(std::string(row.type) + " " + layer->problem_text());
    for (const Math math : {Math::kFP32, Math::kTF32}) {
      const auto check = [&](Pass pass, const TensorDesc& output, bool parameter, double terms) {
        const Limit limit = limit_of(*layer, pass, output, parameter, math);
        EXPECT_EQ(limit.kind, Limit::Kind::kRms);
        EXPECT_DOUBLE_EQ(limit.rms, rounding_limit(math, terms)) << to_string(pass);
      };
      check(Pass::kForward, layer->outputs()[0], false, row.forward);
      check(Pass::kBackwardData, layer->inputs()[0], false, row.backward_data);
      check(Pass::kBackwardFilter, layer->parameters()[0].desc, true, row.backward_filter);
      check(Pass::kBackwardFilter, layer->parameters()[1].desc, true, row.backward_filter);
    }
  }
}

TEST(Agreement, OtherLayersHaveTheElementwiseLimit) {
  const auto layer = make_layer("relu", relu_case());
  for (const Pass pass : layer->passes()) {
    const Limit limit = limit_of(*layer, pass, layer->outputs()[0], false, Math::kFP32);
    EXPECT_EQ(limit.kind, Limit::Kind::kElementwise);
    EXPECT_DOUBLE_EQ(limit.rtol, 1.3e-6);
    EXPECT_DOUBLE_EQ(limit.atol, 1e-5);
  }
}

TEST(Agreement, OutputsInBfloat16HaveTheirStorageOnTop) {
  const LayerCase linear{.keys = {{"out_features", "50"}}, .x = {{{20, 300}}}};
  for (const auto& [type, c] : {std::pair("linear", linear), std::pair("relu", relu_case())}) {
    const auto wide = make_layer(type, c), narrow = make_layer(type, in_bf16(c));
    const Limit fp32 = limit_of(*wide, Pass::kForward, wide->outputs()[0], false, Math::kFP32);
    const Limit bf16 = limit_of(*narrow, Pass::kForward, narrow->outputs()[0], false, Math::kBF16);
    EXPECT_EQ(fp32.kind, bf16.kind);
    EXPECT_EQ(bf16.rms, fp32.rms > 0 ? rounding_limit(Math::kBF16, 300) : 0);
    EXPECT_EQ(fp32.storage, 0);
    EXPECT_EQ(bf16.storage, 0x1p-8);
  }
  // A library may round dw once; its factors are stored in bfloat16 as they come.
  const auto narrow = make_layer("linear", in_bf16(linear));
  const TensorDesc& dw = narrow->parameters()[0].desc;
  const Limit limit = limit_of(*narrow, Pass::kBackwardFilter, dw, true, Math::kBF16);
  EXPECT_EQ(limit.rms, rounding_limit(Math::kFP32, 20));
  EXPECT_EQ(limit.storage, 0x1p-8);
}

TEST(Agreement, IntegersMustBeEqual) {
  const auto layer = make_layer("relu", relu_case());
  EXPECT_EQ(limit_of(*layer, Pass::kForward, {{4}, DType::kInt32}, false, Math::kFP32).kind,
            Limit::Kind::kExact);
}

}  // namespace
}  // namespace duet
