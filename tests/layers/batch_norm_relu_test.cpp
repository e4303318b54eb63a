#include "layers/batch_norm/batch_norm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/case_rig.h"
#include "support/text.h"

namespace duet {

// What batch normalisation alone is tested on, in training and in evaluation.
std::vector<LayerCase> batch_norm1d_cases();
std::vector<LayerCase> batch_norm2d_cases();
std::vector<LayerCase> batch_norm1d_relu_cases() { return batch_norm1d_cases(); }
std::vector<LayerCase> batch_norm2d_relu_cases() { return batch_norm2d_cases(); }

namespace {

// Two features over four rows: 1 2 3 6 has mean 3 and variance 3.5; 0 4 0 4 has 2 and 4.
LayerCase relu_by_hand(bool training) {
  return {.name = "by_hand",
          .keys = {{"eps", "0.5"}, {"momentum", "0.25"}},
          .x = {{{4, 2}}},
          .training = training};
}

std::vector<NamedValues> outputs_of(const LayerCase& c, std::vector<double> x, Pass pass) {
  const auto layer = make_layer("batch_norm1d_relu", c, DType::kFloat64);
  LayerData data = make_data(c, *layer);
  data.x[0] = std::move(x);
  data.w = {{3, 1}, {1, -0.5}, {2, 10}, {8, 4}};
  data.dy[0] = {0, 1, 4, 9, 16, 25, 36, 49};
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(Pass::kForward);
  if (pass != Pass::kForward) runner.run(pass);
  return runner.outputs(pass);
}

void expect_values(const NamedValues& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.values.size(), expected.size()) << found.name;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.values[i], expected[i], 1e-12) << found.name << " " << i;
  }
}

// As torch.nn.BatchNorm1d(2, eps=0.5, momentum=0.25) and relu, worked out by hand.
TEST(BatchNormRelu, ValuesAndGradientsOfPyTorch) {
  const std::vector<double> x = {1, 0, 2, 4, 3, 0, 6, 4};
  const double z = 2 / std::sqrt(4.5);
  const auto y = outputs_of(relu_by_hand(true), x, Pass::kForward);
  ASSERT_EQ(y.size(), 3u);  // with the running statistics, which relu leaves alone
  expect_values(y[0], {0, 0, 0, z - 0.5, 1, 0, 5.5, z - 0.5});
  expect_values(y[1], {0.75 * 2 + 0.25 * 3, 0.75 * 10 + 0.25 * 2});
  expect_values(y[2], {0.75 * 8 + 0.25 * 14 / 3, 0.75 * 4 + 0.25 * 16 / 3});
  // dy comes through in rows 3 and 4 of the first feature, and in 2 and 4 of the second.
  const auto d = outputs_of(relu_by_hand(true), x, Pass::kBackward);
  ASSERT_EQ(d.size(), 3u);
  expect_values(d[1], {36 * 1.5, 58 * z});
  expect_values(d[2], {16 + 36, 9 + 49});
  EXPECT_NEAR(d[0].values[0], 1.5 * (0 - 13 + 13.5), 1e-12);
  EXPECT_NEAR(d[0].values[6], 1.5 * (36 - 13 - 1.5 * 13.5), 1e-12);
  EXPECT_NEAR(d[0].values[3], (9 - 14.5 - z * 58 * z / 4) / std::sqrt(4.5), 1e-12);
}

TEST(BatchNormRelu, EvaluationReadsTheBuffers) {
  const std::vector<double> x = {1, 0, 2, 14, 3, 0, 6, 14};
  const double a = 3 / std::sqrt(8.5), b = 1 / std::sqrt(4.5);
  expect_values(outputs_of(relu_by_hand(false), x, Pass::kForward)[0],
                {0, 0, 1, 4 * b - 0.5, 1 + a, 0, 1 + 4 * a, 4 * b - 0.5});
  expect_values(outputs_of(relu_by_hand(false), x, Pass::kBackward)[0],
                {0, 0, 4 * a, 9 * b, 16 * a, 0, 36 * a, 49 * b});
}

TEST(BatchNormRelu, NanStaysNan) {
  const auto y = outputs_of(relu_by_hand(false), {NAN, 0, 2, NAN, 3, 0, 6, 4}, Pass::kForward)[0];
  EXPECT_TRUE(std::isnan(y.values[0]));
  EXPECT_TRUE(std::isnan(y.values[3]));
  EXPECT_EQ(y.values[1], 0);
}

// Its name and parameters are all that a checkpoint knows of a layer.
TEST(BatchNormRelu, ParametersAreThoseOfBatchNorm) {
  for (const std::string type : {"batch_norm1d", "batch_norm2d"}) {
    const LayerCase c = {.name = "",
                         .x = {{type == "batch_norm1d" ? Shape{5, 3} : Shape{5, 3, 2, 2}}}};
    const auto plain = make_layer(type, c), block = make_layer(type + "_relu", c);
    ASSERT_EQ(block->parameters().size(), plain->parameters().size());
    for (size_t i = 0; i < plain->parameters().size(); ++i) {
      EXPECT_EQ(block->parameters()[i].name, plain->parameters()[i].name);
      EXPECT_EQ(block->parameters()[i].desc, plain->parameters()[i].desc);
      EXPECT_EQ(block->parameters()[i].role, plain->parameters()[i].role);
      EXPECT_EQ(block->parameters()[i].init, plain->parameters()[i].init);
    }
  }
  EXPECT_TRUE(has(error_of([] {
                    make_layer("batch_norm1d_relu", {.name = "", .x = {{{5, 3, 2, 2}}}});
                  }),
                  "batch_norm2d"));
}

TEST(BatchNormRelu, WhatRoundingWouldDecideIsSettled) {
  // The middle row is the mean, in training, and 0 the running mean.
  const LayerCase c = {.name = "", .keys = {{"affine", "false"}}, .x = {{{3, 2}}}};
  const auto layer = make_layer("batch_norm1d_relu", c);
  std::vector<std::vector<double>> dy = {{1, 1, 1, 1, 1, 1}};
  layer->settle({{1, -4, 2, 0, 3, 1}}, {{0, 0}, {1, 1}}, dy);
  EXPECT_EQ(dy[0], (std::vector<double>{1, 1, 0, 0, 1, 1}));
}

}  // namespace
}  // namespace duet
