#include <gtest/gtest.h>

#include "core/error.h"
#include "support/layer_driver.h"

namespace duet {

std::vector<LayerCase> global_avg_pool2d_cases() {
  return in_both_layouts({
      {.name = "one_element", .x = {{{1, 1, 1, 1}}}},
      {.name = "one_pixel", .x = {{{3, 5, 1, 1}}}},
      {.name = "one_channel", .x = {{{3, 1, 5, 7}}}},
      {.name = "rows_of_4", .x = {{{2, 8, 4, 4}}}},
      {.name = "odd", .x = {{{3, 5, 7, 11}}}},
      {.name = "channels_37", .x = {{{2, 37, 3, 3}}}},
      {.name = "resnet", .x = {{{4, 128, 7, 7}}}, .gradient_check = false},
      {.name = "many_of_9", .x = {{{65, 130, 3, 3}}}, .gradient_check = false},
      {.name = "many_of_16", .x = {{{64, 129, 4, 4}}}, .gradient_check = false},
      {.name = "many_of_64", .x = {{{67, 128, 8, 8}}}, .gradient_check = false},
      {.name = "large", .x = {{{2, 6, 130, 100}}}, .gradient_check = false},
      {.name = "shifted", .x = {{{2, 6, 56, 56}}}, .data = Data::kShifted, .gradient_check = false},
      {.name = "integers", .x = {{{2, 6, 8, 8}}}, .data = Data::kIntegers, .exact = true},
      {.name = "non_finite", .x = {{{2, 12, 3, 5}}}, .data = Data::kNonFinite},
  });
}

namespace {

TEST(GlobalAvgPool2d, IsTheMeanOfAChannel) {
  const LayerCase c{.name = "mean", .x = {{{1, 2, 1, 3}}}};
  const auto layer = make_layer("global_avg_pool2d", c, DType::kFloat64);
  EXPECT_EQ(layer->outputs()[0].shape, (Shape{1, 2, 1, 1}));
  LayerData data = make_data(c, *layer);
  data.x[0] = {1, 2, 6, -4, 0, 1};
  data.dy[0] = {3, 6};
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(Pass::kForward);
  EXPECT_EQ(runner.outputs(Pass::kForward)[0].values, (std::vector<double>{3, -1}));
  runner.run(Pass::kBackward);
  EXPECT_EQ(runner.outputs(Pass::kBackward)[0].values, (std::vector<double>{1, 1, 1, 2, 2, 2}));
}

TEST(GlobalAvgPool2d, TakesImages) {
  EXPECT_THROW(make_layer("global_avg_pool2d", {.name = "features", .x = {{{4, 4}}}}), ShapeError);
}

}  // namespace
}  // namespace duet
