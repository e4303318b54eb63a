#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "device/philox.h"
#include "support/case_rig.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> dropout_cases() {
  return {
      {.name = "half", .x = {{{7, 13}}}},
      {.name = "fifth", .keys = {{"p", "0.2"}}, .x = {{{3, 50}}}},
      {.name = "nothing", .keys = {{"p", "0"}}, .x = {{{3, 50}}}, .exact = true},
      {.name = "image_nchw", .x = {{{2, 3, 5, 7}}}},
      {.name = "image_nhwc", .x = {{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}},
      {.name = "vector_length_1027", .x = {{{1, 1027}}}},
      {.name = "image_nhwc_primes",
       .keys = {{"p", "0.3"}},
       .x = {{{3, 13, 11, 1}, DType::kFloat32, Layout::kNHWC}}},
      {.name = "large", .x = {{{8, 16, 33, 31}}}, .gradient_check = false},
      {.name = "late_step", .x = {{{5, 17}}}, .step = (uint64_t{3} << 32) + 9},
      {.name = "evaluation", .x = {{{5, 17}}}, .exact = true, .training = false},
      {.name = "integers", .x = {{{5, 17}}}, .data = Data::kIntegers, .exact = true},
  };
}

namespace {

TEST(Dropout, TheShareThatIsDroppedIsBelowOne) {
  const auto mistake = [](const char* p) {
    return error_of([&] {
      make_layer("dropout", {.name = "", .keys = {{"p", p}}, .x = {{{4, 4}}}});
    });
  };
  for (const char* p : {"1", "1.5", "-0.1", "nan"}) {
    EXPECT_TRUE(has(mistake(p), "p: expected a number of at least 0 and below 1, found")) << p;
  }
  EXPECT_TRUE(has(mistake("0.9999999999"), "p: is 1 as a float"));
}

/// Runs `c` on ones, with every implementation that can run here, and calls
/// check(id, y, dx).
template <class Check>
void for_each_implementation(const LayerCase& c, Check&& check) {
  const auto layer = make_layer("dropout", c);
  const std::vector<double> ones(static_cast<size_t>(c.x[0].elements()), 1.0);
  const LayerData data{.x = {ones}, .dy = {ones}, .step = c.step};
  for (const ImplInfo& info : layer->implementations()) {
    if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
    CaseRig runner(*layer, c, info.id, data, layer->passes());
    for (Pass pass : layer->passes()) runner.run(pass);
    EXPECT_EQ(runner.damage(), "") << info.id;
    check(info.id, runner.outputs(Pass::kForward)[0], runner.outputs(Pass::kBackward)[0]);
  }
}

TEST(Dropout, MaskIsPhiloxInLogicalOrderInBothLayouts) {
  constexpr float kP = 0.3f;
  const float scale = 1.0f / (1.0f - kP);
  for (uint64_t step : {uint64_t{0}, (uint64_t{7} << 32) + 1}) {
    for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
      const LayerCase c{.keys = {{"p", "0.3"}},
                        .x = {{{3, 5, 7, 2}, DType::kFloat32, layout}},
                        .options = {.seed = 0x123456789ABCull, .stream = 17},
                        .step = step};
      for_each_implementation(
          c, [&](std::string_view id, const NamedValues& y, const NamedValues& dx) {
            const auto values = relayout(y.values, y.desc, {y.desc.shape, DType::kFloat32});
            for (size_t i = 0; i < values.size(); ++i) {
              const Philox4 words = philox_block(c.options.seed, step, c.options.stream,
                                                 static_cast<uint32_t>(i / 4));
              const bool kept = uniform_float(words.v[i % 4]) >= kP;
              ASSERT_FLOAT_EQ(static_cast<float>(values[i]), kept ? scale : 0.0f)
                  << id << ", " << to_string(layout) << ", element " << i << ", step " << step;
            }
            EXPECT_EQ(y.values, dx.values) << id;
          });
    }
  }
}

TEST(Dropout, EvaluationIsTheIdentity) {
  const LayerCase c{.x = {{{1, 1027}}}, .training = false};
  for_each_implementation(c, [&](std::string_view id, const NamedValues& y, const NamedValues& dx) {
    const std::vector<double> ones(1027, 1.0);
    EXPECT_EQ(y.values, ones) << id;
    EXPECT_EQ(dx.values, ones) << id;
  });
}

TEST(Dropout, KeepsTheRightShare) {
  constexpr int64_t kCount = 1 << 18;
  for (const char* p : {"0.1", "0.5", "0.9"}) {
    const double keep = 1 - std::stod(p);
    const LayerCase c{.keys = {{"p", p}}, .x = {{{1, kCount}}}};
    for_each_implementation(c, [&](std::string_view id, const NamedValues& y, const NamedValues&) {
      double kept = 0;
      for (double value : y.values) kept += value != 0;
      const double deviation = std::sqrt(kCount * keep * (1 - keep));
      EXPECT_NEAR(kept, kCount * keep, 5 * deviation) << id << ", p " << p;
    });
  }
}

TEST(Dropout, StepsAndStreamsDrawOtherMasks) {
  const LayerCase c{.x = {{{1, 256}}}};
  LayerCase later = c, other = c;
  later.step = c.step + 1;
  other.options.stream = c.options.stream + 1;
  std::vector<double> first, second, third;
  const auto keep = [](std::vector<double>& to) {
    return [&to](std::string_view, const NamedValues& y, const NamedValues&) { to = y.values; };
  };
  for_each_implementation(c, keep(first));
  for_each_implementation(later, keep(second));
  for_each_implementation(other, keep(third));
  EXPECT_NE(first, second);
  EXPECT_NE(first, third);
  EXPECT_NE(second, third);
}

TEST(Dropout, RefusesToDropEverything) {
  EXPECT_THROW(make_layer("dropout", {.keys = {{"p", "1"}}, .x = {{{2, 3}}}}), ConfigError);
  EXPECT_THROW(make_layer("dropout", {.keys = {{"p", "-0.1"}}, .x = {{{2, 3}}}}), ConfigError);
}

}  // namespace
}  // namespace duet
