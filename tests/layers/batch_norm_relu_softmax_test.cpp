#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/case_rig.h"
#include "support/text.h"

namespace duet {

// What batch normalisation of features is tested on, and sizes at which kernels of rows and of columns
// change.
std::vector<LayerCase> batch_norm1d_cases();
std::vector<LayerCase> batch_norm1d_relu_softmax_cases() {
  std::vector<LayerCase> cases = batch_norm1d_cases();
  const std::vector<LayerCase> more = {
      {.name = "two_features", .x = {{{9, 2}}}},
      {.name = "features_of_8", .x = {{{12, 24}}}},
      {.name = "integers", .x = {{{8, 12}}}, .data = Data::kIntegers, .gradient_check = false},
      {.name = "rows_of_2_blocks", .x = {{{40, 300}}}, .gradient_check = false},
      {.name = "features_1024", .x = {{{6, 1024}}}, .gradient_check = false},
      {.name = "features_2052", .x = {{{4, 2052}}}, .gradient_check = false},
      {.name = "features_8192", .x = {{{24, 8192}}}, .gradient_check = false},
      {.name = "too_many_features", .x = {{{3, 8194}}}, .gradient_check = false},
      {.name = "more_rows_than_kept", .x = {{{2300, 132}}}, .gradient_check = false},
      {.name = "more_rows_than_backward_keeps", .x = {{{1100, 37}}}, .gradient_check = false},
      {.name = "more_rows_than_teams", .x = {{{20000, 8}}}, .gradient_check = false},
  };
  const size_t count = cases.size();
  cases.insert(cases.end(), more.begin(), more.end());
  for (size_t i = count; i < count + more.size(); ++i) {
    LayerCase evaluation = cases[i];
    evaluation.name += "_evaluation";
    evaluation.training = false;
    evaluation.forward_only_by = {"cudnn"};  // its backward pass is that of training
    cases.push_back(evaluation);
  }
  cases.push_back(
      {.name = "one_row", .x = {{{1, 6}}}, .training = false, .forward_only_by = {"cudnn"}});
  cases.push_back({.name = "non_finite",
                   .x = {{{7, 13}}},
                   .data = Data::kNonFinite,
                   .training = false,
                   .forward_only = true});
  return cases;
}

namespace {

// Two features over four rows: 1 2 3 6 has mean 3 and variance 3.5; 0 4 0 4 has 2 and 4.
LayerCase softmax_by_hand(bool training) {
  return {.name = "by_hand",
          .keys = {{"eps", "0.5"}, {"momentum", "0.25"}},
          .x = {{{4, 2}}},
          .training = training};
}

/// Of PyTorch's BatchNorm1d, relu and softmax(dim=1), worked out in the test: what relu reads is `z`.
struct ByHand {
  std::vector<double> x = {1, 0, 2, 4, 3, 0, 6, 4}, dy = {0, 1, 4, 9, 16, 25, 36, 49};
  std::vector<double> weight = {3, 1}, bias = {1, -0.5};
  std::vector<double> mean = {3, 2}, inverse = {1 / 2.0, 1 / std::sqrt(4.5)};

  double unit(size_t i) const { return (x[i] - mean[i % 2]) * inverse[i % 2]; }
  double z(size_t i) const { return unit(i) * weight[i % 2] + bias[i % 2]; }
  double relu(size_t i) const { return std::max(z(i), 0.0); }
  double y(size_t i) const { return 1 / (1 + std::exp(relu(i ^ 1) - relu(i))); }
  /// The gradient of relu's input.
  double dz(size_t i) const {
    const double sum = y(i) * dy[i] + y(i ^ 1) * dy[i ^ 1];
    return z(i) > 0 ? y(i) * (dy[i] - sum) : 0;
  }
};

std::vector<NamedValues> outputs_of(const LayerCase& c, const ByHand& hand, Pass pass) {
  const auto layer = make_layer("batch_norm1d_relu_softmax", c, DType::kFloat64);
  LayerData data = make_data(c, *layer);
  data.x[0] = hand.x;
  data.w = {hand.weight, hand.bias, {2, 10}, {8, 4}};
  data.dy[0] = hand.dy;
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(Pass::kForward);
  if (pass != Pass::kForward) runner.run(pass);
  return runner.outputs(pass);
}

TEST(BatchNormReluSoftmax, ValuesAndGradientsOfPyTorch) {
  const ByHand hand;
  const auto y = outputs_of(softmax_by_hand(true), hand, Pass::kForward);
  const auto d = outputs_of(softmax_by_hand(true), hand, Pass::kBackward);
  ASSERT_EQ(y.size(), 3u);  // with the running statistics
  ASSERT_EQ(d.size(), 3u);
  EXPECT_NEAR(y[0].values[0], 0.5, 1e-12);  // relu leaves two zeros
  EXPECT_NEAR(y[1].values[0], 0.75 * 2 + 0.25 * 3, 1e-12);
  EXPECT_NEAR(y[2].values[1], 0.75 * 4 + 0.25 * 16 / 3, 1e-12);
  double dbias[2] = {}, dweight[2] = {};
  for (size_t i = 0; i < 8; ++i) {
    dbias[i % 2] += hand.dz(i);
    dweight[i % 2] += hand.dz(i) * hand.unit(i);
  }
  for (size_t i = 0; i < 8; ++i) {
    const size_t c = i % 2;
    EXPECT_NEAR(y[0].values[i], hand.y(i), 1e-12) << i;
    const double dx = hand.weight[c] * hand.inverse[c] *
                      (hand.dz(i) - dbias[c] / 4 - hand.unit(i) * dweight[c] / 4);
    EXPECT_NEAR(d[0].values[i], dx, 1e-12) << i;
  }
  for (size_t c = 0; c < 2; ++c) {
    EXPECT_NEAR(d[1].values[c], dweight[c], 1e-12);
    EXPECT_NEAR(d[2].values[c], dbias[c], 1e-12);
  }
}

TEST(BatchNormReluSoftmax, EvaluationReadsTheBuffers) {
  ByHand hand;
  hand.mean = {2, 10};
  hand.inverse = {1 / std::sqrt(8.5), 1 / std::sqrt(4.5)};
  const auto y = outputs_of(softmax_by_hand(false), hand, Pass::kForward);
  const auto d = outputs_of(softmax_by_hand(false), hand, Pass::kBackward);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(y[0].values[i], hand.y(i), 1e-12) << i;
    const double dx = hand.weight[i % 2] * hand.inverse[i % 2] * hand.dz(i);
    EXPECT_NEAR(d[0].values[i], dx, 1e-12) << i;
  }
}

// A row whose middle value is the mean, in training: all of its dy, as the softmax mixes them.
TEST(BatchNormReluSoftmax, RowsInWhichRoundingWouldDecideAreSettled) {
  const LayerCase c = {.name = "", .keys = {{"affine", "false"}}, .x = {{{3, 2}}}};
  const auto layer = make_layer("batch_norm1d_relu_softmax", c);
  std::vector<std::vector<double>> dy = {{1, 1, 1, 1, 1, 1}};
  layer->settle({{1, -4, 2, 3, 3, 1.5}}, {{0, 0}, {1, 1}}, dy);
  EXPECT_EQ(dy[0], (std::vector<double>{1, 1, 0, 0, 1, 1}));
}

TEST(BatchNormReluSoftmax, TakesFeaturesAlone) {
  const auto bind = [] {
    make_layer("batch_norm1d_relu_softmax", {.name = "", .x = {{{5, 3, 2, 2}}}});
  };
  EXPECT_TRUE(has(error_of(bind), "takes features (N x F)", "batch_norm2d_relu and softmax"));
}

TEST(BatchNormReluSoftmax, HasBatchNormsParameters) {
  const LayerCase c = {.name = "", .x = {{{5, 3}}}};
  const auto norm = make_layer("batch_norm1d", c);
  const auto block = make_layer("batch_norm1d_relu_softmax", c);
  ASSERT_EQ(block->parameters().size(), norm->parameters().size());
  for (size_t i = 0; i < norm->parameters().size(); ++i) {
    EXPECT_EQ(block->parameters()[i].name, norm->parameters()[i].name);
    EXPECT_EQ(block->parameters()[i].role, norm->parameters()[i].role);
    EXPECT_EQ(block->parameters()[i].init, norm->parameters()[i].init);
  }
}

}  // namespace
}  // namespace duet
