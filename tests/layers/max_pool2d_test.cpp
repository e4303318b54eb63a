#include <gtest/gtest.h>

#include "core/error.h"
#include "layers/pool2d_cases.h"
#include "support/layer_driver.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> max_pool2d_cases() {
  std::vector<LayerCase> cases = pool2d_cases();
  for (LayerCase& c : cases) {
    // cuDNN does not give dy to the last NaN of a window, as PyTorch does, and offers no choice.
    if (c.data == Data::kNonFinite) c.forward_only_by = {"cudnn"};
  }
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    if (cases[i].data == Data::kNonFinite) continue;
    LayerCase ties = cases[i];
    ties.name += "_ties";
    ties.data = Data::kIntegers;  // few different values, and exact sums where windows overlap
    ties.exact = true;
    ties.gradient_check = false;
    cases.push_back(ties);
  }
  return cases;
}

namespace {

std::vector<double> dx_of(const LayerCase& c, const std::vector<double>& x) {
  const auto layer = make_layer("max_pool2d", c, DType::kFloat64);
  LayerData data = make_data(c, *layer);
  data.x[0] = x;
  for (size_t i = 0; i < data.dy[0].size(); ++i) data.dy[0][i] = static_cast<double>(i + 1);
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(Pass::kForward);
  runner.run(Pass::kBackward);
  return runner.outputs(Pass::kBackward)[0].values;
}

TEST(MaxPool2d, TiesGoToTheFirst) {
  const LayerCase c{.name = "ties", .keys = {{"kernel", "2"}}, .x = {{{1, 1, 2, 4}}}};
  EXPECT_EQ(dx_of(c, {3, 3, 1, 5, 3, 3, 5, 2}), (std::vector<double>{1, 0, 0, 2, 0, 0, 0, 0}));
}

TEST(MaxPool2d, OverlappingWindowsAddUp) {
  const LayerCase c{
      .name = "overlap", .keys = {{"kernel", "[1, 2]"}, {"stride", "1"}}, .x = {{{1, 1, 1, 4}}}};
  EXPECT_EQ(dx_of(c, {0, 9, 1, 2}), (std::vector<double>{0, 3, 0, 3}));
}

std::string pool_mistake(const std::vector<std::pair<std::string, std::string>>& keys) {
  return error_of([&] {
    make_layer("max_pool2d", {.name = "mistake", .keys = keys, .x = {{{1, 1, 8, 8}}}});
  });
}

TEST(MaxPool2d, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(has(pool_mistake({}), "'kernel' is missing"));
  EXPECT_TRUE(has(pool_mistake({{"kernel", "3"}, {"padding", "2"}}), "at most half the kernel"));
  EXPECT_TRUE(has(pool_mistake({{"kernel", "9"}}), "larger than the input"));
  EXPECT_NE(pool_mistake({{"kernel", "2"}, {"count_include_pad", "true"}}), "");
  EXPECT_EQ(pool_mistake({{"kernel", "9"}, {"padding", "1"}}), "");
  const LayerCase features{.name = "features", .keys = {{"kernel", "1"}}, .x = {{{4, 4}}}};
  EXPECT_THROW(make_layer("max_pool2d", features), ShapeError);
}

TEST(MaxPool2d, SizesRoundDown) {
  const LayerCase c{.name = "floor",
                    .keys = {{"kernel", "[3, 2]"}, {"padding", "[1, 0]"}},
                    .x = {{{2, 3, 10, 7}}}};
  EXPECT_EQ(make_layer("max_pool2d", c)->outputs()[0].shape, (Shape{2, 3, 4, 3}));
}

}  // namespace
}  // namespace duet
