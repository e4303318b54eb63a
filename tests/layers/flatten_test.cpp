#include <gtest/gtest.h>

#include "support/layer_case.h"

namespace duet {

std::vector<LayerCase> flatten_cases() {
  return {{.name = "image", .x = {{{2, 3, 5, 7}}}}, {.name = "features", .x = {{{2, 9}}}}};
}

namespace {

TEST(Flatten, JoinsChannelsAndPixels) {
  const auto layer = make_layer("flatten", flatten_cases()[0]);
  EXPECT_TRUE(layer->is_view(Pass::kForward));
  ASSERT_EQ(layer->outputs().size(), 1u);
  EXPECT_EQ(layer->outputs()[0].shape, (Shape{2, 105}));
}

TEST(Flatten, RefusesChannelsLast) {
  const LayerCase c{.name = "nhwc", .x = {{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}};
  EXPECT_THROW(make_layer("flatten", c), ShapeError);
}

TEST(Flatten, PassesFeaturesThrough) {
  const auto layer = make_layer("flatten", flatten_cases()[1]);
  EXPECT_EQ(layer->outputs(), layer->inputs());
}

TEST(Flatten, HasNothingToChoose) {
  const auto layer = make_layer("flatten", flatten_cases()[0]);
  EXPECT_TRUE(layer->implementations().empty());
  EXPECT_THROW(layer->unsupported("cpu_reference", Pass::kForward), std::logic_error);
}

}  // namespace
}  // namespace duet
