// Resized images, against what Pillow 11.3.0 makes of the same bytes (tests/pillow/make_checksums.py);
// and sizes that are refused.
#include "data/format/resample.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

const json& checksums() {
  static const json read =
      json::parse(std::ifstream(std::string(DUET_SOURCE_DIR) + "/tests/pillow/checksums.json"));
  return read;
}

// pixels() and black_and_white() of make_checksums.py.
Image known_image(int64_t height, int64_t width, int64_t channels, bool black_and_white) {
  Image image{height, width, channels, {}};
  for (uint64_t i = 0; i < static_cast<uint64_t>(height * width * channels); ++i) {
    const auto value = static_cast<uint8_t>((i * 2654435761u + i * i * 40503u) >> 11);
    image.pixels.push_back(black_and_white ? (value < 128 ? 0 : 255) : value);
  }
  return image;
}

// text_of() of make_checksums.py.
std::string text_of_pixels(const Image& image) {
  const std::vector<uint8_t>& pixels = image.pixels;
  std::string text;
  char digits[9];
  if (pixels.size() <= 45) {
    for (const uint8_t byte : pixels) {
      std::snprintf(digits, sizeof digits, "%02x", byte);
      text += digits;
    }
    return text;
  }
  const uLong sum = crc32(0, pixels.data(), static_cast<uInt>(pixels.size()));
  std::snprintf(digits, sizeof digits, "%08lx", sum);
  return digits;
}

TEST(Resample, EveryFilterIsPillows) {
  EXPECT_EQ(checksums()["filters"], json(resample_filter_names()));
  for (const json& each : checksums()["resized"]) {
    const Image image = known_image(each["from"][0], each["from"][1], each["channels"],
                                    each["black_and_white"].get<bool>());
    const int64_t height = each["to"][0], width = each["to"][1];
    for (size_t i = 0; i < resample_filter_names().size(); ++i) {
      const std::string& name = resample_filter_names()[i];
      const Image result = resample(image, height, width, resample_filter_from(name));
      EXPECT_EQ(result.height, height);
      EXPECT_EQ(result.width, width);
      EXPECT_EQ(result.channels, image.channels);
      EXPECT_EQ(text_of_pixels(result), each["results"][i].get<std::string>())
          << name << " of " << each;
    }
  }
}

TEST(Resample, ASizeThatCannotBeIsNamed) {
  const Image image = known_image(4, 5, 1, false);
  const auto refusal = [](const Image& from, int64_t height, int64_t width) {
    return error_of<DataError>([&] { resample(from, height, width, ResampleFilter::kBicubic); });
  };
  EXPECT_EQ(refusal(image, 0, 3),
            "is 5x4 pixels (width x height), and would become 3x0; every side needs at least 1 "
            "pixel");
  EXPECT_TRUE(has(refusal(image, 3, -7), "would become -7x3; every side"));
  EXPECT_TRUE(has(refusal(Image{0, 5, 1, {}}, 3, 3), "is 5x0 pixels", "every side"));
  EXPECT_TRUE(has(refusal(image, 70000, 3), "would become 3x70000; at most 65535 either way"));
  EXPECT_TRUE(has(refusal(image, 3, int64_t{1} << 40), "at most 65535 either way"));
  EXPECT_TRUE(has(refusal(known_image(60000, 1, 1, false), 1, 60000), "on the way 60000x60000"));
}

}  // namespace
}  // namespace duet
