#include "layers/batch_norm/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "measure/check/agreement.h"
#include "support/layer_driver.h"
#include "support/text.h"

namespace duet {
namespace {

// cuDNN's backward pass is that of training, whatever the mode.
const std::vector<std::string> kOnlyTraining = {"cudnn", "cudnn_persistent", "cudnn_graph"};

/// Each case again in evaluation and without weight and bias.
std::vector<LayerCase> in_all_modes(std::vector<LayerCase> cases) {
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    LayerCase evaluation = cases[i];
    evaluation.name += "_evaluation";
    evaluation.training = false;
    evaluation.forward_only_by = kOnlyTraining;
    LayerCase plain = cases[i];
    plain.name += "_plain";
    plain.keys.emplace_back("affine", "false");
    cases.insert(cases.end(), {evaluation, plain});
  }
  return cases;
}

}  // namespace

std::vector<LayerCase> batch_norm2d_cases() {
  std::vector<LayerCase> cases = in_both_layouts({
      {.name = "two_values", .x = {{{1, 3, 1, 2}}}, .gradient_check = false},
      {.name = "one_channel", .x = {{{3, 1, 5, 7}}}},
      {.name = "one_image", .x = {{{1, 5, 4, 6}}}},
      {.name = "one_pixel", .x = {{{7, 13, 1, 1}}}},
      {.name = "odd", .x = {{{3, 5, 7, 11}}}},
      {.name = "rows_of_4", .x = {{{2, 8, 4, 4}}}},
      {.name = "channels_37", .x = {{{2, 37, 3, 3}}}},
      {.name = "channels_132", .x = {{{2, 132, 2, 3}}}},
      {.name = "shifted", .x = {{{4, 6, 9, 9}}}, .data = Data::kShifted, .gradient_check = false},
      {.name = "ties", .x = {{{2, 3, 5, 5}}}, .data = Data::kTies, .gradient_check = false},
      {.name = "keys", .keys = {{"eps", "0.1"}, {"momentum", "0.25"}}, .x = {{{3, 4, 5, 5}}}},
      {.name = "small", .x = {{{3, 4, 5, 5}}}, .scale = 1e-4, .gradient_check = false},
      {.name = "large", .x = {{{8, 16, 33, 31}}}, .gradient_check = false},
      {.name = "one_large_channel", .x = {{{5, 1, 130, 100}}}, .gradient_check = false},
      {.name = "many_channels", .x = {{{2, 512, 4, 4}}}, .gradient_check = false},
  });
  cases = in_all_modes(std::move(cases));
  // custom_welford: second looks between first ones, and several batches a turn; where channels are innermost, rows
  // in registers, on shelves, and read again. custom_cluster: more than registers keep; teams with a channel each, with
  // several, some one less than others and in backward more than their rings hold; and in bf16 vectors of 8 bytes.
  const TensorDesc many = {{5, 300, 29, 29}, DType::kFloat32, Layout::kNCHW};
  const TensorDesc large = {{7, 16, 124, 118}, DType::kFloat32, Layout::kNCHW};
  const TensorDesc rounds = {{5, 70, 124, 120}, DType::kFloat32, Layout::kNCHW};
  const TensorDesc halves = {{5, 6, 122, 122}, DType::kFloat32, Layout::kNCHW};
  const TensorDesc rows = {{5, 32, 115, 116}, DType::kFloat32, Layout::kNHWC};
  const TensorDesc wide = {{11, 4256, 10, 10}, DType::kFloat32, Layout::kNHWC};
  cases.push_back({.name = "many_wide_rows", .x = {wide}, .gradient_check = false});
  cases.push_back({.name = "many_turns", .x = {many}, .gradient_check = false});
  cases.push_back({.name = "large_channels", .x = {large}, .gradient_check = false});
  cases.push_back({.name = "many_rounds", .x = {rounds}, .gradient_check = false});
  cases.push_back({.name = "large_channels_of_halves", .x = {halves}, .gradient_check = false});
  cases.push_back({.name = "many_rows", .x = {rows}, .gradient_check = false});
  for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    cases.push_back({.name = "one_value_" + std::string(to_string(layout)),
                     .x = {{{1, 6, 1, 1}, DType::kFloat32, layout}},
                     .training = false,
                     .forward_only_by = kOnlyTraining});
    cases.push_back({.name = "non_finite_" + std::string(to_string(layout)),
                     .x = {{{2, 3, 5, 7}, DType::kFloat32, layout}},
                     .data = Data::kNonFinite,
                     .training = false,
                     .forward_only = true});
  }
  return cases;
}

std::vector<LayerCase> batch_norm1d_cases() {
  return in_all_modes({
      {.name = "two_rows", .x = {{{2, 5}}}, .gradient_check = false},
      {.name = "one_feature", .x = {{{29, 1}}}},
      {.name = "odd", .x = {{{7, 13}}}},
      {.name = "features_of_4", .x = {{{6, 20}}}},
      {.name = "shifted", .x = {{{50, 17}}}, .data = Data::kShifted, .gradient_check = false},
      {.name = "mnist", .x = {{{64, 128}}}, .gradient_check = false},
      {.name = "many_rows", .x = {{{5000, 3}}}, .gradient_check = false},
      {.name = "many_features", .x = {{{3, 1030}}}, .gradient_check = false},
  });
}

namespace {

std::vector<NamedValues> outputs_of(const LayerCase& c, const std::vector<double>& x,
                                    const std::vector<std::vector<double>>& w, Pass pass) {
  const auto layer = make_layer("batch_norm1d", c, DType::kFloat64);
  LayerData data = make_data(c, *layer);
  data.x[0] = x;
  data.w = w;
  for (size_t i = 0; i < x.size(); ++i) data.dy[0][i] = static_cast<double>(i * i);
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(Pass::kForward);
  if (pass != Pass::kForward) runner.run(pass);
  return runner.outputs(pass);
}

void expect_near(const NamedValues& found, const std::string& name,
                 const std::vector<double>& expected) {
  EXPECT_EQ(found.name, name);
  ASSERT_EQ(found.values.size(), expected.size()) << name;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.values[i], expected[i], 1e-12) << name << " " << i;
  }
}

// Two features over four rows: 1 2 3 6 has mean 3 and variance 3.5, unbiased 14/3; 0 4 0 4 has 2
// and 4, unbiased 16/3. As torch.nn.BatchNorm1d(2, eps=0.5, momentum=0.25), worked out by hand.
const std::vector<double> kRows = {1, 0, 2, 4, 3, 0, 6, 4};
const std::vector<std::vector<double>> kParameters = {{3, 1}, {1, -1}, {2, 10}, {8, 4}};
LayerCase by_hand() {
  return {.name = "by_hand", .keys = {{"eps", "0.5"}, {"momentum", "0.25"}}, .x = {{{4, 2}}}};
}

TEST(BatchNorm, TrainingIsPyTorchs) {
  const auto outputs = outputs_of(by_hand(), kRows, kParameters, Pass::kForward);
  ASSERT_EQ(outputs.size(), 3u);
  const double z = 2 / std::sqrt(4.5);
  expect_near(outputs[0], "y[0]", {-2, -1 - z, -0.5, -1 + z, 1, -1 - z, 5.5, -1 + z});
  expect_near(outputs[1], "running_mean", {0.75 * 2 + 0.25 * 3, 0.75 * 10 + 0.25 * 2});
  expect_near(outputs[2], "running_var", {0.75 * 8 + 0.25 * 14 / 3, 0.75 * 4 + 0.25 * 16 / 3});
}

TEST(BatchNorm, EvaluationReadsTheBuffers) {
  LayerCase c = by_hand();
  c.training = false;
  const auto outputs = outputs_of(c, kRows, kParameters, Pass::kForward);
  ASSERT_EQ(outputs.size(), 1u);
  const double a = 3 / std::sqrt(8.5), b = 1 / std::sqrt(4.5);
  expect_near(outputs[0], "y[0]",
              {1 - a, -1 - 10 * b, 1, -1 - 6 * b, 1 + a, -1 - 10 * b, 1 + 4 * a, -1 - 6 * b});
  // The statistics are constants on the way back: dx = dy * weight / sqrt(running_var + eps).
  const auto gradients = outputs_of(c, kRows, kParameters, Pass::kBackward);
  expect_near(gradients[0], "dx[0]", {0, b, 4 * a, 9 * b, 16 * a, 25 * b, 36 * a, 49 * b});
}

TEST(BatchNorm, GradientsAreSumsOverTheBatch) {
  const auto outputs = outputs_of(by_hand(), kRows, kParameters, Pass::kBackward);
  ASSERT_EQ(outputs.size(), 3u);
  // z = -1 -0.5 0 1.5 and dy = 0 4 16 36; z = -+2 / sqrt(4.5) and dy = 1 9 25 49.
  expect_near(outputs[1], "dw[0] weight", {52, 64 / std::sqrt(4.5)});
  expect_near(outputs[2], "dw[1] bias", {56, 84});
  // dx = weight / 2 * (dy - 56 / 4 - z * 52 / 4)
  EXPECT_NEAR(outputs[0].values[0], 1.5 * (0 - 14 + 13), 1e-12);
  EXPECT_NEAR(outputs[0].values[6], 1.5 * (36 - 14 - 1.5 * 13), 1e-12);
}

TEST(BatchNorm, ParametersAreNamedAsPyTorchs) {
  std::vector<std::string> names;
  const auto layer = make_layer("batch_norm2d", {.name = "", .x = {{{2, 3, 4, 5}}}});
  for (const ParameterSpec& p : layer->parameters()) {
    names.push_back(p.name);
    EXPECT_EQ(p.desc.shape, (Shape{3}));
    EXPECT_EQ(p.trained(), p.name == "weight" || p.name == "bias") << p.name;
    EXPECT_EQ(p.init, p.name == "weight" || p.name == "running_var" ? Init::kOnes : Init::kZeros);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"weight", "bias", "running_mean", "running_var"}));
}

TEST(BatchNorm, OneValueAChannelCannotBeTrained) {
  const auto reason = [](std::string_view type, const Shape& x) {
    return make_layer(type, {.name = "", .x = {{x}}})->untrainable().value_or("");
  };
  EXPECT_TRUE(has(reason("batch_norm1d", {1, 8}), "use a larger batch"));
  EXPECT_TRUE(has(reason("batch_norm2d", {1, 8, 1, 1}), "1x8x1x1"));
  EXPECT_EQ(reason("batch_norm1d", {2, 8}), "");
  EXPECT_EQ(reason("batch_norm2d", {1, 8, 1, 2}), "");
}

TEST(BatchNorm, RefusesWhatDoesNotFit) {
  const auto mistake = [](std::string_view type, const TensorDesc& x,
                          const std::vector<std::pair<std::string, std::string>>& keys) {
    return error_of([&] { make_layer(type, {.name = "", .keys = keys, .x = {x}}); });
  };
  EXPECT_TRUE(has(mistake("batch_norm2d", {{4, 4}}, {}), "batch_norm1d"));
  EXPECT_TRUE(has(mistake("batch_norm1d", {{4, 4, 2, 2}}, {}), "batch_norm2d"));
  EXPECT_TRUE(has(mistake("batch_norm1d", {{4, 4}}, {{"eps", "0"}}), "must be above 0"));
  EXPECT_NE(mistake("batch_norm1d", {{4, 4}}, {{"momentum", "1.5"}}), "");
}

// The variance as the mean of squares less the square of the mean: wrong where the mean is large.
TEST(BatchNorm, LimitsFindSumsThatCancel) {
  const LayerCase c = {.name = "", .x = {{{64, 5}}}, .data = Data::kShifted};
  const auto layer = make_layer("batch_norm1d", c);
  const LayerData data = make_data(c, *layer);
  const Reference reference = run_reference(*layer, data, {}, {Pass::kForward});
  const NamedValues& expected = reference.of(Pass::kForward)[0];
  std::vector<double> found(expected.values.size());
  for (size_t f = 0; f < 5; ++f) {
    float sum = 0, squares = 0;
    for (size_t i = f; i < found.size(); i += 5) {
      const auto x = static_cast<float>(data.x[0][i]);
      sum += x;
      squares += x * x;
    }
    const float mean = sum / 64, var = std::max(0.0f, squares / 64 - mean * mean);
    for (size_t i = f; i < found.size(); i += 5) {
      const float z = (static_cast<float>(data.x[0][i]) - mean) / std::sqrt(var + 1e-5f);
      found[i] = z * static_cast<float>(data.w[0][f]) + static_cast<float>(data.w[1][f]);
    }
  }
  const Limit limit = limit_of(*layer, Pass::kForward, layer->outputs()[0], false, Math::kFP32);
  EXPECT_GT(compare(expected.values, found, limit, expected.sizes).share_of_limit, 2);
}

}  // namespace
}  // namespace duet
