// Grey, colours and sizes of pictures, against numbers that Pillow 12 gave for the same bytes.
#include "data/image.h"

#include <gtest/gtest.h>

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

Bytes resized(const Image& image, int64_t height, int64_t width) {
  const Image result = resize(image, height, width);
  EXPECT_EQ(result.height, height);
  EXPECT_EQ(result.width, width);
  EXPECT_EQ(result.channels, image.channels);
  return result.pixels;
}

TEST(Image, GreyIsPillows) {
  EXPECT_EQ(to_grey(kColourImage).pixels, Bytes({138, 141, 83, 34,  133, 127, 148, 173, 158, 41,
                                                 118, 110, 75, 130, 139, 120, 144, 109, 127, 166}));
  EXPECT_EQ(to_grey(kGreyImage).pixels, kGreyImage.pixels);
}

TEST(Image, GreyHasEqualColours) {
  const Image colours = to_rgb({1, 2, 1, {7, 9}});
  EXPECT_EQ(colours.channels, 3);
  EXPECT_EQ(colours.pixels, Bytes({7, 7, 7, 9, 9, 9}));
  EXPECT_EQ(to_rgb(kColourImage).pixels, kColourImage.pixels);
}

TEST(Image, SizesArePillows) {
  EXPECT_EQ(resized(kGreyImage, 2, 3), Bytes({171, 105, 138, 116, 113, 151}));
  EXPECT_EQ(resized(kGreyImage, 7, 9),
            Bytes({175, 182, 194, 120, 25,  148, 226, 127, 67,  188, 185, 181, 124, 53,  130, 182,
                   137, 109, 208, 190, 161, 129, 97,  101, 111, 152, 177, 177, 147, 97,  88,  88,
                   89,  97,  129, 148, 135, 102, 48,  55,  77,  86,  97,  111, 119, 78,  101, 140,
                   133, 113, 127, 144, 171, 187, 42,  101, 198, 182, 136, 153, 174, 209, 230}));
  EXPECT_EQ(resized(kGreyImage, 4, 2), Bytes({153, 137, 156, 127, 75, 89, 141, 182}));
  EXPECT_EQ(resized(kGreyImage, 1, 5), Bytes({148, 137, 85, 139, 148}));
  EXPECT_EQ(resized(kColourImage, 3, 2), Bytes({107, 142, 128, 54, 102, 163, 154, 105, 168, 112,
                                                119, 161, 145, 114, 92, 165, 108, 158}));
  EXPECT_EQ(resized(kGreyImage, 4, 5), kGreyImage.pixels);
}

TEST(Image, EveryPixelOfALargePictureCounts) {
  Image large{90, 61, 1, {}};
  for (int y = 0; y < 90; ++y) {
    for (int x = 0; x < 61; ++x) large.pixels.push_back(static_cast<uint8_t>(7 * y + 13 * x));
  }
  EXPECT_EQ(resized(large, 4, 3),
            Bytes({130, 128, 126, 125, 128, 129, 129, 127, 126, 126, 127, 130}));
}

}  // namespace
}  // namespace duet
