#include "layers/softmax/softmax.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/case_rig.h"

namespace duet {

std::vector<LayerCase> softmax_cases() {
  return {
      {.name = "one_element", .x = {{{1, 1}}}},
      {.name = "one_column", .x = {{{5, 1}}}},
      {.name = "vector", .x = {{{77}}}},
      {.name = "n7_c13", .x = {{{7, 13}}}},
      {.name = "n128_c200", .x = {{{128, 200}}}, .gradient_check = false},
      {.name = "sequence_3x5x33", .x = {{{3, 5, 33}}}},
      {.name = "attention_nchw", .x = {{{2, 3, 9, 9}}}, .scale = 3},
      {.name = "attention_nhwc", .x = {{{2, 3, 5, 12}, DType::kFloat32, Layout::kNHWC}}},
      // A warp a row to 1024 columns, then a block; 8192 fit into its registers.
      {.name = "c256", .x = {{{9, 256}}}, .gradient_check = false},
      {.name = "c511", .x = {{{9, 511}}}, .gradient_check = false},
      {.name = "c512", .x = {{{67, 512}}}, .gradient_check = false},
      {.name = "c1024", .x = {{{5, 1024}}}, .gradient_check = false},
      {.name = "c1025", .x = {{{5, 1025}}}, .gradient_check = false},
      {.name = "c4096", .x = {{{3, 4096}}}, .gradient_check = false},
      {.name = "c8192", .x = {{{3, 8192}}}, .gradient_check = false},
      {.name = "c8195", .x = {{{3, 8195}}}, .gradient_check = false},
      {.name = "c20000", .x = {{{2, 20000}}}, .gradient_check = false},
      {.name = "many_rows", .x = {{{70001, 3}}}, .gradient_check = false},
      {.name = "peaked", .x = {{{16, 40}}}, .scale = 20, .gradient_check = false},
      {.name = "huge", .x = {{{17, 13}}}, .scale = 1e4, .gradient_check = false},
      {.name = "ties", .x = {{{8, 10}}}, .data = Data::kTies},
      // Forward only: 0 * infinity is a matter of what underflows.
      {.name = "non_finite", .x = {{{40, 10}}}, .data = Data::kNonFinite, .forward_only = true},
      {.name = "non_finite_c3000",
       .x = {{{4, 3000}}},
       .data = Data::kNonFinite,
       .forward_only = true},
  };
}

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// What every implementation that can run here makes of rows of `columns` values.
template <class Check>
void for_each_implementation(int64_t columns, const std::vector<double>& x,
                             const std::vector<double>& dy, Check&& check) {
  const LayerCase c{.x = {{{static_cast<int64_t>(x.size()) / columns, columns}}}};
  const auto layer = make_layer("softmax", c);
  for (const ImplInfo& info : layer->implementations()) {
    if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
    CaseRig runner(*layer, c, info.id, {.x = {x}, .dy = {dy}}, layer->passes());
    for (Pass pass : layer->passes()) runner.run(pass);
    check(info.id, runner.outputs(Pass::kForward)[0].values,
          runner.outputs(Pass::kBackward)[0].values);
  }
}

TEST(Softmax, KnownValuesAndGradients) {
  // softmax(0, ln 3) = (1/4, 3/4); of equal numbers 1/2 each, however large they are.
  const std::vector<double> y = {0.25, 0.75, 0.5, 0.5}, dx = {-0.1875, 0.1875, 0.5, -0.5};
  for_each_implementation(2, {0, std::log(3.0), 1e6, 1e6}, {1, 2, 2, 0},
                          [&](std::string_view id, const auto& found_y, const auto& found_dx) {
                            for (size_t i = 0; i < y.size(); ++i) {
                              EXPECT_NEAR(found_y[i], y[i], 1e-6) << id << " " << i;
                              EXPECT_NEAR(found_dx[i], dx[i], 1e-6) << id << " " << i;
                            }
                          });
}

TEST(Softmax, WhatIsMaskedHasNoShareAndNoGradient) {
  for_each_implementation(3, {-kInfinity, 0, 0, -kInfinity, -kInfinity, 5}, {1, 2, 4, 1, 2, 3},
                          [&](std::string_view id, const auto& y, const auto& dx) {
                            EXPECT_EQ(y, (std::vector<double>{0, 0.5, 0.5, 0, 0, 1})) << id;
                            EXPECT_EQ(dx, (std::vector<double>{0, -0.5, 0.5, 0, 0, 0})) << id;
                          });
}

TEST(Softmax, ARowWithNothingButMinusInfinityIsNaN) {
  for_each_implementation(2, {-kInfinity, -kInfinity}, {1, 2},
                          [&](std::string_view id, const auto& y, const auto&) {
                            EXPECT_TRUE(std::isnan(y[0])) << id;
                            EXPECT_TRUE(std::isnan(y[1])) << id;
                          });
}

}  // namespace
}  // namespace duet
