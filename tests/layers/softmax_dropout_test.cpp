#include "layers/softmax_dropout/softmax_dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "support/case_rig.h"

namespace duet {

std::vector<LayerCase> softmax_cases();

// What softmax alone is tested on, with a share of 0.3, and other shares.
std::vector<LayerCase> softmax_dropout_cases() {
  std::vector<LayerCase> cases = softmax_cases();
  for (LayerCase& c : cases) c.keys.emplace_back("p", "0.3");
  const std::vector<LayerCase> more = {
      {.name = "half", .x = {{{7, 64}}}},
      {.name = "nothing", .keys = {{"p", "0"}}, .x = {{{7, 13}}}},
      {.name = "most", .keys = {{"p", "0.95"}}, .x = {{{64, 24}}}},
      {.name = "late_step", .x = {{{5, 20}}}, .step = (uint64_t{3} << 32) + 9},
      {.name = "evaluation", .x = {{{6, 20}}}, .training = false},
      {.name = "evaluation_c13", .x = {{{6, 13}}}, .training = false},
      {.name = "evaluation_c9000", .x = {{{2, 9000}}}, .training = false, .gradient_check = false},
      {.name = "heads_2x4x17x20", .x = {{{2, 4, 17, 20}}}},
  };
  cases.insert(cases.end(), more.begin(), more.end());
  return cases;
}

namespace {

/// Calls check(id, y, dx) with what each implementation that can run here makes of `x` and `dy`.
template <class Check>
void for_each_implementation(const LayerCase& c, const std::vector<double>& x,
                             const std::vector<double>& dy, Check&& check) {
  const auto layer = make_layer("softmax_dropout", c);
  for (const ImplInfo& info : layer->implementations()) {
    if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
    CaseRig runner(*layer, c, info.id, {.x = {x}, .dy = {dy}, .step = c.step}, layer->passes());
    for (Pass pass : layer->passes()) runner.run(pass);
    check(info.id, runner.outputs(Pass::kForward)[0].values,
          runner.outputs(Pass::kBackward)[0].values);
  }
}

// The mask is that of a dropout layer of the same stream at the same step, whatever the columns.
TEST(SoftmaxDropout, DropsWhatDropoutDrops) {
  for (const int64_t columns : {int64_t{24}, int64_t{13}, int64_t{2049}}) {
    LayerCase c{.keys = {{"p", "0.4"}}, .x = {{{5, columns}}}, .step = 77};
    const auto count = static_cast<size_t>(5 * columns);
    const std::vector<double> ones(count, 1.0);
    const auto dropout = make_layer("dropout", c);
    CaseRig rig(*dropout, c, "cpu_reference", {.x = {ones}, .dy = {ones}, .step = c.step},
                dropout->passes());
    rig.run(Pass::kForward);
    const std::vector<double> mask = rig.outputs(Pass::kForward)[0].values;
    for_each_implementation(c, ones, ones, [&](std::string_view id, const auto& y, const auto&) {
      for (size_t i = 0; i < count; ++i) {
        ASSERT_NEAR(y[i], mask[i] / static_cast<double>(columns), 1e-6) << id << " " << i;
      }
    });
  }
}

// Rows 0 and ln 3, of which softmax makes 1/4 and 3/4; of dy = 1 and 2 dropout leaves d.
TEST(SoftmaxDropout, GradientsByHand) {
  const LayerCase c{.x = {{{6, 2}}}};
  std::vector<double> x, dy;
  for (int row = 0; row < 6; ++row) {
    x.insert(x.end(), {0.0, std::log(3.0)});
    dy.insert(dy.end(), {1.0, 2.0});
  }
  for_each_implementation(c, x, dy, [&](std::string_view id, const auto& y, const auto& dx) {
    for (size_t i = 0; i < x.size(); i += 2) {
      const double d0 = y[i] > 0 ? 2.0 : 0.0, d1 = y[i + 1] > 0 ? 4.0 : 0.0;
      const double sum = 0.25 * d0 + 0.75 * d1;
      EXPECT_NEAR(dx[i], 0.25 * (d0 - sum), 1e-6) << id << " " << i;
      EXPECT_NEAR(dx[i + 1], 0.75 * (d1 - sum), 1e-6) << id << " " << i;
    }
  });
}

TEST(SoftmaxDropout, RefusesToDropEverything) {
  EXPECT_THROW(make_layer("softmax_dropout", {.keys = {{"p", "1"}}, .x = {{{2, 3}}}}), ConfigError);
}

}  // namespace
}  // namespace duet
