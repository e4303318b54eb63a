#include <gtest/gtest.h>

#include "core/error.h"
#include "support/layer_driver.h"
#include "support/text.h"

namespace duet {

std::vector<LayerCase> pixel_shuffle_cases() {
  /// An image of c channels and h x w pixels behind the shuffle by `scale`.
  const auto to = [](const std::string& name, int64_t scale, int64_t n, int64_t c, int64_t h,
                     int64_t w) {
    return LayerCase{.name = name,
                     .keys = {{"scale", std::to_string(scale)}},
                     .x = {{{n, c * scale * scale, h / scale, w / scale}}}};
  };
  std::vector<LayerCase> cases = {
      to("scale1_one_element", 1, 1, 1, 1, 1),
      to("scale1_odd", 1, 2, 3, 5, 7),
      to("scale1_w8_c8", 1, 2, 8, 3, 8),
      to("scale2_one_pixel", 2, 1, 1, 2, 2),
      to("scale2_one_pixel_c16", 2, 3, 16, 2, 2),
      to("scale2_one_row", 2, 2, 3, 2, 34),
      to("scale2_one_column", 2, 2, 3, 26, 2),
      // Rows (nchw) and channels (nhwc) in whole 16 bytes of float32, of bfloat16 too, and in none.
      to("scale2_w4_c4", 2, 2, 4, 6, 8),
      to("scale2_w8_c8", 2, 2, 8, 6, 16),
      to("scale2_w12_c12", 2, 1, 12, 10, 24),
      to("scale2_odd", 2, 3, 5, 6, 14),
      to("scale3_one_pixel", 3, 2, 1, 3, 3),
      to("scale3_w4_c4", 3, 2, 4, 9, 12),
      to("scale3_w16_c8", 3, 1, 8, 15, 48),
      to("scale3_odd", 3, 2, 3, 15, 21),
      to("scale3_one_channel", 3, 2, 1, 21, 51),
      to("scale4_w4_c4", 4, 2, 4, 12, 16),
      to("scale4_w8_c16", 4, 1, 16, 12, 32),
      to("scale4_odd", 4, 1, 3, 12, 20),
      to("scale5_w8_c8", 5, 1, 8, 10, 40),
      to("scale5_odd", 5, 2, 1, 15, 35),
      to("scale17", 17, 1, 2, 34, 51),
      to("espcn_x3", 3, 16, 1, 51, 51),
      to("many_planes", 2, 65, 33, 6, 8),
      to("large", 2, 2, 16, 130, 72),
      to("non_finite", 2, 2, 4, 6, 8),
      to("non_finite_odd", 3, 2, 1, 9, 15),
  };
  for (LayerCase& c : cases) {
    c.exact = true;
    c.gradient_check = c.x[0].elements() < 1000;
    if (c.name.starts_with("non_finite")) c.data = Data::kNonFinite;
  }
  return in_both_layouts(std::move(cases));
}

namespace {

std::vector<double> counted(int64_t count) {
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i));
  return values;
}

/// The refusal of a layer that cannot be made.
std::string refusal(const LayerCase& c) {
  return error_of<ShapeError>([&] { make_layer("pixel_shuffle", c); });
}

// Values as torch.nn.PixelShuffle(2) gives them.
TEST(PixelShuffle, PutsTheChannelsOfAPixelIntoASquare) {
  const LayerCase c{.name = "order", .keys = {{"scale", "2"}}, .x = {{{1, 8, 1, 2}}}};
  const auto layer = make_layer("pixel_shuffle", c);
  EXPECT_EQ(layer->outputs()[0].shape, (Shape{1, 2, 2, 4}));
  LayerData data = make_data(c, *layer);
  data.x[0] = data.dy[0] = counted(16);
  CaseRig rig(*layer, c, "cpu_reference", data, layer->passes());
  rig.run(Pass::kForward);
  EXPECT_EQ(rig.outputs(Pass::kForward)[0].values,
            (std::vector<double>{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}));
  rig.run(Pass::kBackward);
  EXPECT_EQ(rig.outputs(Pass::kBackward)[0].values,
            (std::vector<double>{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}));
}

// Of the channels-last image of the same values; y has those of the nchw image, channels last.
TEST(PixelShuffle, KeepsTheLayout) {
  const LayerCase c{.name = "order",
                    .keys = {{"scale", "2"}},
                    .x = {{{1, 8, 1, 2}, DType::kFloat32, Layout::kNHWC}}};
  const auto layer = make_layer("pixel_shuffle", c);
  EXPECT_EQ(layer->outputs()[0].layout, Layout::kNHWC);
  LayerData data = make_data(c, *layer);
  data.x[0] = {0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15};
  CaseRig rig(*layer, c, "cpu_reference", data, layer->passes());
  rig.run(Pass::kForward);
  EXPECT_EQ(rig.outputs(Pass::kForward)[0].values,
            (std::vector<double>{0, 8, 2, 10, 1, 9, 3, 11, 4, 12, 6, 14, 5, 13, 7, 15}));
}

TEST(PixelShuffle, RefusesSizesThatDoNotFitTheScale) {
  EXPECT_EQ(refusal({.name = "channels", .keys = {{"scale", "3"}}, .x = {{{2, 8, 5, 7}}}}),
            "scale 3 takes channels in multiples of 9 (scale * scale), not the 8 of 2x8x5x7");
  EXPECT_EQ(refusal({.name = "huge", .keys = {{"scale", "2147483647"}}, .x = {{{2, 8, 5, 7}}}}),
            "scale 2147483647 takes channels in multiples of 4611686014132420609 (scale * scale), "
            "not the 8 of 2x8x5x7");
  EXPECT_EQ(refusal({.name = "features", .keys = {{"scale", "2"}}, .x = {{{4, 4}}}}),
            "takes images (N x C x H x W), not 4x4");
  EXPECT_EQ(refusal({.name = "large", .keys = {{"scale", "2"}}, .x = {{{32768, 4, 128, 128}}}}),
            "takes fewer than 2^31 elements, not 32768x4x128x128");
}

TEST(PixelShuffle, NeedsAScale) {
  const auto error_with = [](decltype(LayerCase::keys) keys) {
    return error_of<ConfigError>([&] {
      make_layer("pixel_shuffle",
                 {.name = "scale", .keys = std::move(keys), .x = {{{2, 4, 3, 3}}}});
    });
  };
  EXPECT_TRUE(has(error_with({}), "scale"));
  EXPECT_TRUE(has(error_with({{"scale", "0"}}), "scale"));
  EXPECT_TRUE(has(error_with({{"scale", "-2"}}), "scale"));
  EXPECT_TRUE(has(error_with({{"scale", "1.5"}}), "scale"));
  EXPECT_TRUE(has(error_with({{"scale", "[2, 2]"}}), "scale"));
  EXPECT_EQ(error_with({{"scale", "2"}}), "");
}

}  // namespace
}  // namespace duet
