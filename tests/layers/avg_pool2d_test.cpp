#include <gtest/gtest.h>

#include "layers/pool2d_cases.h"
#include "support/layer_driver.h"

namespace duet {

std::vector<LayerCase> avg_pool2d_cases() {
  std::vector<LayerCase> cases = pool2d_cases();
  const size_t count = cases.size();
  for (size_t i = 0; i < count; ++i) {
    bool padded = false;
    for (const auto& [key, value] : cases[i].keys) padded = padded || key == "padding";
    if (!padded) continue;
    LayerCase c = cases[i];
    c.name += "_exclude_pad";
    c.keys.emplace_back("count_include_pad", "false");
    cases.push_back(c);
  }
  for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    // Quarters of small whole numbers are exact.
    cases.push_back({.name = "integers_" + std::string(to_string(layout)),
                     .keys = {{"kernel", "2"}},
                     .x = {{{2, 4, 6, 8}, DType::kFloat32, layout}},
                     .data = Data::kIntegers,
                     .exact = true});
  }
  return cases;
}

namespace {

std::vector<double> y_of(const LayerCase& c, const std::vector<double>& x) {
  const auto layer = make_layer("avg_pool2d", c, DType::kFloat64);
  LayerData data = make_data(c, *layer);
  data.x[0] = x;
  CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
  runner.run(Pass::kForward);
  return runner.outputs(Pass::kForward)[0].values;
}

TEST(AvgPool2d, CountsThePaddingUnlessToldNotTo) {
  LayerCase c{
      .name = "padding", .keys = {{"kernel", "2"}, {"padding", "1"}}, .x = {{{1, 1, 2, 2}}}};
  EXPECT_EQ(y_of(c, {4, 8, 12, 16}), (std::vector<double>{1, 2, 3, 4}));
  c.keys.emplace_back("count_include_pad", "false");
  EXPECT_EQ(y_of(c, {4, 8, 12, 16}), (std::vector<double>{4, 8, 12, 16}));
}

}  // namespace
}  // namespace duet
