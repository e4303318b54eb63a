#include "layers/conv2d/cudnn/conv2d_samples.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/storage.h"
#include "support/case_rig.h"
#include "support/layer_case.h"
#include "support/tf32.h"

namespace duet {
namespace {

LayerCase with_everything(Layout layout) {
  LayerCase c{.name = "everything",
              .keys = {{"out_channels", "10"},
                       {"kernel", "[2, 3]"},
                       {"stride", "[3, 1]"},
                       {"padding", "[1, 3]"},
                       {"dilation", "[1, 3]"},
                       {"groups", "2"}},
              .x = {{{2, 6, 11, 9}}}};
  c.x[0].layout = layout;
  return c;
}

void fill(std::vector<double>& tensor, const KnownValues& values, double (*round)(double)) {
  for (size_t i = 0; i < tensor.size(); ++i) tensor[i] = round(values[static_cast<int64_t>(i)]);
}

double unrounded(double value) { return value; }

/// As far off as an algorithm of cuDNN's left an element of dw in bf16 on an H200.
double two_percent_off(double value) { return rounded_to(DType::kBFloat16, 1.02 * value); }

double to_tf32(double value) { return tf32(static_cast<float>(value)); }

/// The relative error of `pass` by cpu_reference, its inputs rounded, by the limit.
double share_of_limit(const LayerCase& c, Pass pass, double (*round)(double)) {
  const auto layer = make_layer("conv2d", c, DType::kFloat64);
  const Conv2dValues values;
  LayerData data = make_data(c, *layer);
  fill(data.x[0], values.x, round);
  fill(data.w[0], values.w, round);
  fill(data.w[1], values.b, unrounded);
  fill(data.dy[0], values.y, round);
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(pass);

  const Conv2dProblem problem = dynamic_cast<Conv2dLayer&>(*layer).problem();
  const Conv2dSamples samples(problem, pass, values);
  const std::vector<double> output = runner.outputs(pass)[0].values;
  std::vector<float> found;
  for (const int64_t offset : samples.offsets()) {
    found.push_back(static_cast<float>(output.at(static_cast<size_t>(offset))));
  }
  EXPECT_GE(found.size(), 25u);
  return samples.relative_error(found) / samples.limit();
}

TEST(Conv2dSamples, TellTheDefinitionFromTF32) {
  for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    for (const Pass pass : three_passes()) {
      const LayerCase c = with_everything(layout);
      EXPECT_LT(share_of_limit(c, pass, unrounded), 0.1)
          << to_string(pass) << " " << to_string(layout);
      EXPECT_GT(share_of_limit(c, pass, to_tf32), 10)
          << to_string(pass) << " " << to_string(layout);
    }
  }
}

TEST(Conv2dSamples, TellTF32InLongSumsToo) {
  const LayerCase c{
      .name = "long", .keys = {{"out_channels", "32"}, {"kernel", "1"}}, .x = {{{8, 1, 100, 100}}}};
  EXPECT_LT(share_of_limit(c, Pass::kBackwardFilter, unrounded), 0.1);
  EXPECT_GT(share_of_limit(c, Pass::kBackwardFilter, to_tf32), 2);
}

TEST(Conv2dSamples, AllowOneRoundingToBf16AndNoMore) {
  for (const Pass pass : three_passes()) {
    const Conv2dProblem problem = {.n = 3,
                                   .c = 2,
                                   .h = 9,
                                   .w = 9,
                                   .k = 4,
                                   .p = 9,
                                   .q = 9,
                                   .math = Math::kBF16,
                                   .dtype = DType::kBFloat16};
    const Conv2dSamples samples(problem, pass, Conv2dValues(DType::kBFloat16));
    std::vector<float> once, worse;
    for (const double value : samples.expected()) {
      once.push_back(static_cast<float>(rounded_to(DType::kBFloat16, value)));
      worse.push_back(static_cast<float>(two_percent_off(value)));
    }
    EXPECT_EQ(samples.relative_error(once), 0.0) << to_string(pass);
    EXPECT_GT(samples.relative_error(worse), samples.limit()) << to_string(pass);
  }
}

TEST(Conv2dSamples, RefuseWhatWasNotWritten) {
  const Conv2dSamples samples({.n = 2, .h = 5, .w = 5, .p = 5, .q = 5}, Pass::kForward,
                              Conv2dValues());
  std::vector<float> found(samples.offsets().size(), 0.0f);
  EXPECT_FALSE(samples.relative_error(found) <= samples.limit());
  found[0] = std::nanf("");
  EXPECT_FALSE(samples.relative_error(found) <= samples.limit());
}

}  // namespace
}  // namespace duet
