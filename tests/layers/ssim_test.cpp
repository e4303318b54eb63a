// The metric ssim, also against scikit-image (tests/scikit_image/make_image_quality.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "layers/layers.h"
#include "support/case_rig.h"
#include "support/striped_image.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using Keys = std::vector<std::pair<std::string, std::string>>;

std::vector<TensorDesc> images(const Shape& shape) {
  return {{shape}, {shape}, rows_desc(shape[0])};
}

// Tiles of custom_tiled are 32 x 16 windows.
std::vector<LayerCase> cases_with(const std::string& prefix, const Keys& keys, int64_t least) {
  const auto sized = [least](int64_t n, int64_t c, int64_t height, int64_t width) {
    return images({n, c, least - 1 + height, least - 1 + width});
  };
  std::vector<LayerCase> cases = {
      {.name = "one_window", .x = sized(1, 1, 1, 1)},
      {.name = "one_tile", .x = sized(2, 1, 16, 32)},
      {.name = "odd", .x = sized(5, 3, 7, 9)},
      {.name = "just_over", .x = sized(2, 2, 17, 33)},
      {.name = "tall", .x = sized(3, 1, 50, 2)},
      {.name = "wide", .x = sized(3, 1, 2, 70)},
      {.name = "many_images", .x = sized(301, 2, 1, 2)},
      {.name = "several_tiles", .x = sized(7, 3, 35, 70)},
      {.name = "unit", .x = sized(4, 3, 9, 9), .data = Data::kUnit},
      {.name = "ties", .x = sized(4, 1, 9, 9), .data = Data::kTies},
      {.name = "large", .x = sized(2, 1, 9, 9), .scale = 1e4},
      {.name = "non_finite", .x = sized(6, 1, 2, 2), .data = Data::kNonFinite},
  };
  cases = in_both_layouts(cases);
  for (LayerCase& c : cases) {
    c.name = prefix + c.name;
    c.keys = keys;
  }
  return cases;
}

}  // namespace

std::vector<LayerCase> ssim_cases() {
  std::vector<LayerCase> cases = cases_with("gaussian_", {{"data_range", "4"}}, 11);
  for (const auto& more :
       {cases_with("uniform_", {{"data_range", "1"}, {"window", "uniform"}}, 7),
        cases_with("border_", {{"data_range", "255"}, {"window", "uniform"}, {"border", "3"}},
                   13)}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

namespace {

using nlohmann::json;

/// The totals of every implementation that runs on this machine.
template <class Visit>
void for_each_totals(const LayerCase& c, const LayerData& data, const Visit& visit) {
  const auto layer = make_layer("ssim", c);
  for (const ImplInfo& info : layer->implementations()) {
    if (device_of(family_of(info.id)) == Device::kGpu && !gpu_available()) continue;
    SCOPED_TRACE(std::string(info.id));
    CaseRig rig(*layer, c, info.id, data, layer->passes());
    rig.run(Pass::kForward);
    visit(info.id, rig.outputs(Pass::kForward)[0].values);
  }
}

// Each image twice, between them one that does not count.
TEST(SsimLayer, IsScikitImages) {
  const json expected =
      json::parse(std::ifstream(DUET_SOURCE_DIR "/tests/scikit_image/image_quality.json"));
  ASSERT_FALSE(expected["cases"].empty());
  for (const json& each : expected["cases"]) {
    SCOPED_TRACE(each.dump());
    const int64_t channels = each["channels"], height = each["height"], width = each["width"];
    std::vector<double> x, y;
    for (const uint64_t start : {0, 500, 0}) {
      const auto first = striped_image(channels, height, width, each["data_range"], start);
      const auto second =
          striped_image(channels, height, width, each["data_range"], start + 1000000);
      x.insert(x.end(), first.begin(), first.end());
      y.insert(y.end(), second.begin(), second.end());
    }
    for (const auto& [window, name] :
         {std::pair("gaussian", "gaussian_population"), {"uniform", "uniform_sample"}}) {
      for (const Layout layout : {Layout::kNCHW, Layout::kNHWC}) {
        LayerCase c{.keys = {{"data_range", each["data_range"].dump()},
                             {"window", window},
                             {"border", each["border"].dump()}},
                    .x = images({3, channels, height, width})};
        const TensorDesc as_given = c.x[0];
        c.x[0].layout = c.x[1].layout = layout;
        const LayerData data{
            .x = {relayout(x, as_given, c.x[0]), relayout(y, as_given, c.x[0]), {0, -1, 2}},
            .dy = {{0, 0}}};
        const double expected = each[name];
        for_each_totals(c, data, [&](std::string_view, const std::vector<double>& totals) {
          EXPECT_NEAR(totals[0], 2 * expected, 4e-7);
          EXPECT_EQ(totals[1], 2);
        });
      }
    }
  }
}

TEST(SsimLayer, OfEqualImagesIsOne) {
  const std::vector<double> image = striped_image(3, 40, 50, 255, 7);
  for (const char* window : {"gaussian", "uniform"}) {
    const LayerCase c{.keys = {{"data_range", "255"}, {"window", window}},
                      .x = images({1, 3, 40, 50})};
    const LayerData data{.x = {image, image, {0}}, .dy = {{0, 0}}};
    for_each_totals(c, data, [&](std::string_view, const std::vector<double>& totals) {
      EXPECT_EQ(totals, (std::vector<double>{1, 1}));
    });
  }
}

// A flat image far from 0: what a sum of squares cancels in float.
TEST(SsimLayer, KeepsTheDigitsOfSmallDifferences) {
  std::vector<double> x(13 * 13), y(13 * 13);
  for (size_t i = 0; i < x.size(); ++i) {
    x[i] = 250 + 0.0625 * static_cast<double>(i % 3);
    y[i] = 250 + 0.0625 * static_cast<double>(i % 5);
  }
  const LayerCase c{.keys = {{"data_range", "1"}}, .x = images({1, 1, 13, 13})};
  const LayerData data{.x = {x, y, {0}}, .dy = {{0, 0}}};
  double reference = 0;
  for_each_totals(c, data, [&](std::string_view id, const std::vector<double>& totals) {
    if (id == "cpu_reference") reference = totals[0];
    EXPECT_LT(std::abs(totals[0]), 0.9);
    EXPECT_NEAR(totals[0], reference, 1e-6);
  });
}

TEST(SsimLayer, WithoutCountedRowsTotalsAreZero) {
  const LayerCase c{.keys = {{"data_range", "1"}}, .x = images({2, 1, 11, 11})};
  const LayerData data{
      .x = {std::vector<double>(242, std::nan("")), std::vector<double>(242, 1), {-1, -1}},
      .dy = {{0, 0}}};
  for_each_totals(c, data, [&](std::string_view, const std::vector<double>& totals) {
    EXPECT_EQ(totals, (std::vector<double>{0, 0}));
  });
}

TEST(SsimLayer, RefusesWhatDoesNotFit) {
  const auto refusal = [](const Keys& keys, const Shape& shape) {
    const LayerCase c{.keys = keys, .x = images(shape)};
    return error_of<ConfigError>([&] { make_layer("ssim", c); });
  };
  const auto range = std::pair<std::string, std::string>("data_range", "1");
  const auto uniform = std::pair<std::string, std::string>("window", "uniform");
  EXPECT_TRUE(has(refusal({range}, {2, 3}), "images N,C,H,W", "2x3"));
  EXPECT_TRUE(has(refusal({range}, {2, 3, 10, 64}), "windows of 11x11 pixels", "2x3x10x64",
                  "use 'window: uniform' of 7x7"));
  EXPECT_TRUE(has(refusal({range, uniform}, {2, 3, 64, 6}), "windows of 7x7 pixels", "2x3x64x6"));
  const std::string cut = refusal({range, {"border", "2"}}, {2, 3, 14, 14});
  EXPECT_TRUE(has(cut, "less 2 pixels at each side", "make 'border' smaller")) << cut;
  EXPECT_EQ(refusal({range, {"border", "2"}}, {2, 3, 15, 15}), "");
  EXPECT_TRUE(has(refusal({range, {"border", "2147483647"}}, {2, 3, 15, 15}), "border"));
  EXPECT_TRUE(has(refusal({}, {2, 3, 15, 15}), "required key 'data_range' is missing"));
  EXPECT_TRUE(has(refusal({range, {"window", "gausian"}}, {2, 3, 15, 15}), "window", "gaussian"));
}

}  // namespace
}  // namespace duet
