// Grey, luma and colours of pictures, against what Pillow (12, and 11 for checksums.json) and scikit-image
// make of the same bytes.
#include "data/format/image.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "test_paths.h"

namespace duet {
namespace {

using Bytes = std::vector<uint8_t>;

const Image kGreyImage = {4, 5, 1, {175, 196, 25, 246, 67,  211, 151, 103, 92,  185,
                                    142, 23,  72, 89,  110, 42,  218, 136, 167, 230}};
const Image kColourImage = {
    4, 5, 3, {68,  176, 127, 135, 172, 0,   75,  55,  250, 6,   19,  188, 44,  191, 69,
              56,  152, 183, 181, 112, 251, 189, 192, 34,  56,  201, 206, 38,  4,   238,
              137, 87,  227, 195, 72,  83,  176, 1,   192, 144, 118, 159, 93,  172, 92,
              252, 71,  23,  10,  233, 35,  192, 61,  135, 151, 92,  247, 224, 149, 100}};

// Every 11th value of red, green and blue: colours() of tests/pillow/make_checksums.py.
Image colour_grid() {
  Image grid{1, 24 * 24 * 24, 3, {}};
  for (int red = 0; red < 256; red += 11) {
    for (int green = 0; green < 256; green += 11) {
      for (int blue = 0; blue < 256; blue += 11) {
        for (const int value : {red, green, blue}) {
          grid.pixels.push_back(static_cast<uint8_t>(value));
        }
      }
    }
  }
  return grid;
}

// The CRC-32 that the file at `path` in tests/ has under `key`.
uLong crc_in(const std::string& path, const char* key) {
  return nlohmann::json::parse(std::ifstream(DUET_SOURCE_DIR "/tests/" + path))[key];
}

uLong crc_of(const Bytes& pixels) {
  return crc32(0, pixels.data(), static_cast<uInt>(pixels.size()));
}

TEST(Image, GreyIsPillows) {
  EXPECT_EQ(to_grey(kColourImage).pixels, Bytes({138, 141, 83, 34,  133, 127, 148, 173, 158, 41,
                                                 118, 110, 75, 130, 139, 120, 144, 109, 127, 166}));
  EXPECT_EQ(to_grey(kGreyImage).pixels, kGreyImage.pixels);
  EXPECT_EQ(crc_of(to_grey(colour_grid()).pixels), crc_in("pillow/checksums.json", "grey"));
}

TEST(Image, LimitedLumaIsBt601s) {
  // Black, white and the primaries, as tables of BT.601 have them.
  const Image primaries{1, 5, 3, {0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 255, 0, 0, 0, 255}};
  const Image luma = to_limited_luma(primaries);
  EXPECT_EQ(luma.width, 5);
  EXPECT_EQ(luma.channels, 1);
  EXPECT_EQ(luma.pixels, Bytes({16, 235, 81, 145, 41}));
  EXPECT_EQ(crc_of(to_limited_luma(colour_grid()).pixels),
            crc_in("scikit_image/image_quality.json", "luma"));
  // 125.5, which a sum in floating point can miss.
  EXPECT_EQ(to_limited_luma({1, 1, 3, {0, 204, 68}}).pixels, Bytes({126}));
  EXPECT_EQ(to_limited_luma({1, 2, 1, {0, 255}}).pixels, Bytes({16, 235}));
}

TEST(Image, GreyHasEqualColours) {
  const Image colours = to_rgb({1, 2, 1, {7, 9}});
  EXPECT_EQ(colours.channels, 3);
  EXPECT_EQ(colours.pixels, Bytes({7, 7, 7, 9, 9, 9}));
  EXPECT_EQ(to_rgb(kColourImage).pixels, kColourImage.pixels);
}

}  // namespace
}  // namespace duet
