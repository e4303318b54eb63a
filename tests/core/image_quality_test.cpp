// PSNR and SSIM against scikit-image 0.26.0 (tests/scikit_image/make_image_quality.py), at their
// limits, and of images that cannot be compared.
#include "core/image_quality.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <vector>

#include "support/striped_image.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

struct OwnedImage {
  int64_t channels, height, width;
  std::vector<double> values;

  operator ImageValues() const { return {channels, height, width, values}; }
};

OwnedImage striped(int64_t channels, int64_t height, int64_t width, double data_range,
                   uint64_t start) {
  return {channels, height, width, striped_image(channels, height, width, data_range, start)};
}

TEST(ImageQuality, IsScikitImages) {
  const json expected = json::parse(
      std::ifstream(std::string(DUET_SOURCE_DIR) + "/tests/scikit_image/image_quality.json"));
  ASSERT_FALSE(expected["cases"].empty());
  for (const json& each : expected["cases"]) {
    SCOPED_TRACE(each.dump());
    const double range = each["data_range"];
    const int64_t border = each["border"];
    const auto image = [&](uint64_t start) {
      return striped(each["channels"], each["height"], each["width"], range, start);
    };
    const OwnedImage x = image(0), y = image(1000000);
    const auto expect = [&](const char* name, double found) {
      EXPECT_NEAR(found, each[name], 1e-10 * std::abs(each[name].get<double>())) << name;
    };
    expect("psnr", psnr(x, y, range, border));
    expect("gaussian_population", ssim(x, y, range, {.border = border}));
    expect("gaussian_sample", ssim(x, y, range, {.sample_covariance = true, .border = border}));
    expect("uniform_population",
           ssim(x, y, range, {.window = SsimWindow::kUniform7, .border = border}));
    expect("uniform_sample",
           ssim(x, y, range,
                {.window = SsimWindow::kUniform7, .sample_covariance = true, .border = border}));
  }
}

TEST(ImageQuality, EqualImagesAreEqual) {
  const OwnedImage image = striped(3, 20, 15, 255, 7);
  EXPECT_EQ(psnr(image, image, 255), std::numeric_limits<double>::infinity());
  for (const SsimWindow window : {SsimWindow::kGaussian11, SsimWindow::kUniform7}) {
    for (const bool sample : {false, true}) {
      EXPECT_EQ(ssim(image, image, 255, {.window = window, .sample_covariance = sample}), 1.0);
    }
  }
  const OwnedImage flat{1, 11, 11, std::vector<double>(121, 0.0)};
  EXPECT_EQ(ssim(flat, flat, 1), 1.0);
}

// Values that follow from the formula.
TEST(ImageQuality, KnownValues) {
  const OwnedImage black{1, 7, 7, std::vector<double>(49, 0.0)};
  const OwnedImage white{1, 7, 7, std::vector<double>(49, 1.0)};
  EXPECT_EQ(psnr(black, white, 1), 0.0);
  EXPECT_NEAR(psnr(black, white, 10), 20.0, 1e-12);
  EXPECT_NEAR(ssim(black, white, 1, {.window = SsimWindow::kUniform7}), 1e-4 / (1 + 1e-4), 1e-15);
}

// What lies in the border does not count, and all else does.
TEST(ImageQuality, TheBorderIsCut) {
  const OwnedImage image = striped(2, 13, 15, 255, 0);
  for (size_t i = 0; i < image.values.size(); ++i) {
    OwnedImage other = image;
    other.values[i] += 10;
    const int64_t x = static_cast<int64_t>(i) % 15, y = static_cast<int64_t>(i) / 15 % 13;
    const bool inside = x >= 1 && x < 14 && y >= 1 && y < 12;
    EXPECT_EQ(std::isinf(psnr(image, other, 255, 1)), !inside) << i;
    EXPECT_EQ(ssim(image, other, 255, {.border = 1}) == 1.0, !inside) << i;
  }
}

TEST(ImageQuality, NanIsNotHidden) {
  const OwnedImage image = striped(1, 11, 11, 255, 0);
  OwnedImage broken = image;
  broken.values[60] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(std::isnan(psnr(image, broken, 255)));
  EXPECT_TRUE(std::isnan(ssim(image, broken, 255)));
}

TEST(ImageQuality, WhatCannotBeComparedIsNamed) {
  const OwnedImage image = striped(1, 12, 10, 255, 0), turned = striped(1, 10, 12, 255, 0);
  const auto refusal = [](const auto& action) { return error_of<Error>(action); };
  EXPECT_TRUE(has(refusal([&] { psnr(image, turned, 255); }), "images of one size",
                  "10x12 pixels of 1 channels and 12x10 pixels of 1 channels"));
  EXPECT_TRUE(has(refusal([&] { ssim(image, image, 255); }), "10x12 pixels",
                  "at least 11x11 pixels have to remain"));
  EXPECT_TRUE(
      has(refusal([&] { ssim(image, image, 255, {.window = SsimWindow::kUniform7, .border = 2}); }),
          "of which 2 pixels are cut off each side; at least 7x7"));
  EXPECT_NO_THROW(psnr(image, image, 255, 4));
  for (const int64_t border : {int64_t{5}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_THROW(psnr(image, image, 255, border), DataError) << border;
  }
  EXPECT_THROW(psnr(OwnedImage{}, OwnedImage{}, 255), DataError);
  EXPECT_TRUE(has(refusal([&] { psnr(image, image, 255, -1); }), "border: expected", "not -1"));
  for (const double range : {0.0, -255.0, std::nan(""), HUGE_VAL}) {
    EXPECT_TRUE(has(error_of<ConfigError>([&] { psnr(image, image, range); }), "data_range"));
    EXPECT_TRUE(has(error_of<ConfigError>([&] { ssim(image, image, range); }), "data_range"));
  }
}

}  // namespace
}  // namespace duet
