#include <gtest/gtest.h>

#include "core/error.h"
#include "support/case_rig.h"

namespace duet {
namespace {

/// Images of 2 x c x 3 x 5 for each of `channels`.
std::vector<TensorDesc> images(const std::vector<int64_t>& channels,
                               Layout layout = Layout::kNCHW) {
  std::vector<TensorDesc> all;
  for (int64_t c : channels) all.push_back({{2, c, 3, 5}, DType::kFloat32, layout});
  return all;
}

}  // namespace

std::vector<LayerCase> concat_cases() {
  return {
      {.name = "one_element", .x = {{{1, 1}}, {{1, 1}}}},
      {.name = "features", .x = {{{7, 13}}, {{7, 1}}, {{7, 5}}}},
      {.name = "images_nchw", .x = images({3, 4, 1})},
      {.name = "images_nhwc", .x = images({3, 4, 1}, Layout::kNHWC)},
      {.name = "fours_nchw", .x = {{{3, 4, 2, 2}}, {{3, 8, 2, 2}}}},
      {.name = "fours_nhwc", .x = images({4, 8, 4}, Layout::kNHWC)},
      {.name = "nine", .x = images({1, 2, 3, 4, 5, 6, 7, 8, 9})},
      {.name = "seventeen_nhwc",
       .x = images({1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8}, Layout::kNHWC)},
      {.name = "large", .x = {{{8, 16, 33, 31}}, {{8, 5, 33, 31}}}, .gradient_check = false},
      {.name = "many_rows_nhwc",
       .x = {{{16, 3, 70, 70}, DType::kFloat32, Layout::kNHWC},
             {{16, 2, 70, 70}, DType::kFloat32, Layout::kNHWC}},
       .gradient_check = false},
      {.name = "exact", .x = images({3, 2}), .exact = true},
      {.name = "non_finite", .x = images({3, 2}), .data = Data::kNonFinite, .exact = true},
  };
}

namespace {

TEST(Concat, FollowsTheChannels) {
  for (Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
    const LayerCase c{.name = "order", .x = images({2, 3}, layout)};
    const auto layer = make_layer("concat", c);
    const TensorDesc& y = layer->outputs()[0];
    ASSERT_EQ(y.shape, (Shape{2, 5, 3, 5}));
    LayerData data = make_data(c, *layer);
    for (size_t k = 0; k < 2; ++k) std::fill(data.x[k].begin(), data.x[k].end(), k + 1);
    CaseRig runner(*layer, c, "cpu_reference", data, layer->passes());
    runner.run(Pass::kForward);
    const auto values = runner.outputs(Pass::kForward)[0].values;
    for (int64_t n = 0; n < 2; ++n) {
      for (int64_t channel = 0; channel < 5; ++channel) {
        EXPECT_EQ(values[static_cast<size_t>(offset_of(y, n, channel, 2, 4))], channel < 2 ? 1 : 2);
      }
    }
  }
}

TEST(Concat, RefusesWhatDiffersInMore) {
  for (const TensorDesc& other :
       {TensorDesc{{2, 3, 5, 6}}, TensorDesc{{3, 3, 5, 7}}, TensorDesc{{2, 3}},
        TensorDesc{{2, 3, 5, 7}, DType::kFloat32, Layout::kNHWC}}) {
    EXPECT_THROW(make_layer("concat", {.name = "differ", .x = {{{2, 3, 5, 7}}, other}}), ShapeError)
        << other.to_string();
  }
}

}  // namespace
}  // namespace duet
