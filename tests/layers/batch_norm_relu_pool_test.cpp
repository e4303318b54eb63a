#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/case_rig.h"
#include "support/text.h"

namespace duet {
namespace {

// cuDNN's backward pass is that of training, whatever the mode.
const std::vector<std::string> kPoolOnlyTraining = {"cudnn"};

LayerCase pooled(LayerCase c, const std::string& kernel = "2") {
  c.keys.emplace_back("pool_kernel", kernel);
  return c;
}

}  // namespace

std::vector<LayerCase> batch_norm2d_relu_pool_cases() {
  std::vector<LayerCase> cases = in_both_layouts({
      pooled({.name = "one_window", .x = {{{1, 3, 2, 2}}}}),
      pooled({.name = "one_channel", .x = {{{3, 1, 4, 6}}}}),
      pooled({.name = "rows_of_4", .x = {{{2, 8, 4, 8}}}}),
      pooled({.name = "rows_of_6", .x = {{{2, 5, 6, 6}}}}),
      pooled({.name = "odd", .x = {{{3, 5, 7, 11}}}}),
      pooled({.name = "odd_height", .x = {{{2, 3, 5, 8}}}}),
      pooled({.name = "odd_width", .x = {{{2, 4, 6, 5}}}}),
      pooled({.name = "one_row_of_windows", .x = {{{2, 4, 3, 12}}}}),
      pooled({.name = "channels_37", .x = {{{2, 37, 4, 4}}}}),
      pooled({.name = "channels_132", .x = {{{2, 132, 2, 6}}}}),
      pooled({.name = "shifted",
              .x = {{{4, 6, 9, 9}}},
              .data = Data::kShifted,
              .gradient_check = false}),
      pooled({.name = "ties", .x = {{{2, 3, 6, 6}}}, .data = Data::kTies, .gradient_check = false}),
      pooled(
          {.name = "keys", .keys = {{"eps", "0.1"}, {"momentum", "0.25"}}, .x = {{{3, 4, 4, 4}}}}),
      pooled({.name = "large", .x = {{{8, 16, 34, 36}}}, .gradient_check = false}),
      pooled({.name = "large_odd", .x = {{{8, 16, 33, 31}}}, .gradient_check = false}),
      pooled({.name = "one_large_channel", .x = {{{5, 1, 130, 100}}}, .gradient_check = false}),
      pooled({.name = "windows_3x2", .x = {{{2, 3, 7, 6}}}}, "[3, 2]"),
      pooled({.name = "overlapping",
              .keys = {{"pool_stride", "2"}, {"pool_padding", "1"}},
              .x = {{{2, 5, 7, 8}}}},
             "3"),
  });
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    LayerCase evaluation = cases[i], plain = cases[i];
    evaluation.name += "_evaluation";
    evaluation.training = false;
    evaluation.forward_only_by = kPoolOnlyTraining;
    plain.name += "_plain";
    plain.keys.emplace_back("affine", "false");
    cases.insert(cases.end(), {evaluation, plain});
  }
  // custom_cluster's teams, as batch_norm's.
  const TensorDesc rounds = {{5, 70, 124, 120}, DType::kFloat32, Layout::kNCHW};
  const TensorDesc halves = {{5, 6, 130, 124}, DType::kFloat32, Layout::kNCHW};
  cases.push_back(pooled({.name = "many_rounds", .x = {rounds}, .gradient_check = false}));
  cases.push_back(
      pooled({.name = "large_channels_of_halves", .x = {halves}, .gradient_check = false}));
  for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    cases.push_back(pooled({.name = "non_finite_" + std::string(to_string(layout)),
                            .x = {{{2, 3, 6, 7}, DType::kFloat32, layout}},
                            .data = Data::kNonFinite,
                            .training = false,
                            .forward_only = true}));
  }
  return cases;
}

namespace {

// One channel of two 2x2 images, 1 2 3 6 and 0 4 0 8: mean 3, variance 7.25 (8.2857 unbiased).
LayerCase pool_by_hand(bool training) {
  return pooled({.name = "by_hand",
                 .keys = {{"eps", "1.75"}, {"momentum", "0.25"}},
                 .x = {{{2, 1, 2, 2}}},
                 .training = training});
}

std::vector<NamedValues> outputs_of(const LayerCase& c, std::vector<double> x, double weight,
                                    Pass pass) {
  const auto layer = make_layer("batch_norm2d_relu_pool", c, DType::kFloat64);
  LayerData data = make_data(c, *layer);
  data.x[0] = std::move(x);
  data.w = {{weight}, {1}, {2}, {8}};
  data.dy[0] = {10, 20};
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(Pass::kForward);
  if (pass != Pass::kForward) runner.run(pass);
  return runner.outputs(pass);
}

void expect_near(const NamedValues& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.values.size(), expected.size()) << found.name;
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found.values[i], expected[i], 1e-12) << found.name << " " << i;
  }
}

// As BatchNorm2d(1, eps=1.75, momentum=0.25), ReLU and MaxPool2d(2) of PyTorch, worked out by hand.
TEST(BatchNormReluPool, ValuesAndGradientsOfPyTorch) {
  const std::vector<double> x = {1, 2, 3, 6, 0, 4, 0, 8};
  const auto y = outputs_of(pool_by_hand(true), x, 3, Pass::kForward);
  ASSERT_EQ(y.size(), 3u);
  expect_near(y[0], {1 + 3 * 1.0, 1 + 3 * 5.0 / 3});
  expect_near(y[1], {0.75 * 2 + 0.25 * 3});
  expect_near(y[2], {0.75 * 8 + 0.25 * 7.25 * 8 / 7});
  const auto d = outputs_of(pool_by_hand(true), x, 3, Pass::kBackward);
  ASSERT_EQ(d.size(), 3u);
  const double dweight = 10 * 1 + 20 * 5.0 / 3, dbias = 30;
  expect_near(d[1], {dweight});
  expect_near(d[2], {dbias});
  const auto dx = [&](double dz, double value) {
    return 3 / 3.0 * (dz - dbias / 8 - (value - 3) / 3 * dweight / 8);
  };
  expect_near(d[0],
              {dx(0, 1), dx(0, 2), dx(0, 3), dx(10, 6), dx(0, 0), dx(0, 4), dx(0, 0), dx(20, 8)});
}

// A negative weight makes the smallest of a window the largest, of equal ones the first; and what relu
// stops has no gradient.
TEST(BatchNormReluPool, TheLargestAfterBatchNormalisation) {
  const std::vector<double> x = {7, 9, 8, 7, 30, 30, 30, 30};
  const double scale = -1 / std::sqrt(9.75);
  const auto y = outputs_of(pool_by_hand(false), x, -1, Pass::kForward)[0];
  EXPECT_EQ(y.values, (std::vector<double>{0, 0}));
  EXPECT_NEAR(outputs_of(pool_by_hand(false), {1, 0, 0, 3, 30, 30, 30, 30}, -1, Pass::kForward)[0]
                  .values[0],
              1 - 2 * scale, 1e-12);
  expect_near(outputs_of(pool_by_hand(false), {1, 0, 0, 3, 30, 30, 30, 30}, -1, Pass::kBackward)[0],
              {0, 10 * scale, 0, 0, 0, 0, 0, 0});
}

TEST(BatchNormReluPool, WhatRoundingWouldDecideIsSettled) {
  const LayerCase c = pooled({.name = "", .keys = {{"affine", "false"}}, .x = {{{1, 1, 2, 8}}}});
  const auto layer = make_layer("batch_norm2d_relu_pool", c);
  // Equal values, nearly equal ones, values apart, and nothing above the mean.
  const std::vector<double> x = {9, 9, 9, 9.00001, 9, 8, 0, 0,  //
                                 0, 0, 0, 0,       0, 0, 0, 0};
  std::vector<std::vector<double>> dy = {{1, 1, 1, 1}};
  layer->settle({x}, {{0}, {1}}, dy);
  EXPECT_EQ(dy[0], (std::vector<double>{1, 0, 1, 0}));  // 0 is the running mean
}

TEST(BatchNormReluPool, HasBatchNormsParameters) {
  const LayerCase c = {.name = "", .x = {{{5, 3, 2, 2}}}};
  const auto norm = make_layer("batch_norm2d", c);
  const auto block = make_layer("batch_norm2d_relu_pool", pooled(c));
  ASSERT_EQ(block->parameters().size(), norm->parameters().size());
  for (size_t i = 0; i < norm->parameters().size(); ++i) {
    EXPECT_EQ(block->parameters()[i].name, norm->parameters()[i].name);
    EXPECT_EQ(block->parameters()[i].role, norm->parameters()[i].role);
    EXPECT_EQ(block->parameters()[i].init, norm->parameters()[i].init);
  }
  EXPECT_EQ(block->outputs()[0].shape, (Shape{5, 3, 1, 1}));
}

}  // namespace
}  // namespace duet
