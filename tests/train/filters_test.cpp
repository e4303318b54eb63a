#include "train/evaluate/filters.h"

#include <gtest/gtest.h>

#include <cmath>

namespace duet {
namespace {

uint8_t at(const Image& image, int64_t y, int64_t x, int64_t channel = 0) {
  return image.pixels[static_cast<size_t>((y * image.width + x) * image.channels + channel)];
}

TEST(Filters, GreyIsZero) {
  const Image image = filter_picture({0, 1, -2, 2, 0, 0, 0, NAN}, {2, 1, 2, 2});
  EXPECT_EQ(image.channels, 1);
  EXPECT_EQ(image.height, 1 + 31);  // a row of two tiles of 2 x 15 pixels
  EXPECT_EQ(image.width, 1 + 2 * 31);
  EXPECT_EQ(at(image, 1, 1), 128);
  EXPECT_EQ(at(image, 1, 16), 191);
  EXPECT_EQ(at(image, 16, 1), 0);
  EXPECT_EQ(at(image, 30, 30), 255);
  EXPECT_EQ(at(image, 1, 32), 128);
  EXPECT_EQ(at(image, 30, 61), 0);  // not a number
  EXPECT_EQ(at(image, 0, 0), 255);  // between tiles
}

TEST(Filters, OfThreeChannelsAreColours) {
  const Image image = filter_picture({1, 0, -1}, {1, 3, 1, 1});
  EXPECT_EQ(image.channels, 3);
  EXPECT_EQ(at(image, 1, 1, 0), 255);
  EXPECT_EQ(at(image, 1, 1, 1), 128);
  EXPECT_EQ(at(image, 1, 1, 2), 0);
}

TEST(Filters, OfOtherChannelsHaveATileEach) {
  const Image image = filter_picture({1, 0, 0, 0, 0, -1}, {3, 2, 1, 1});
  EXPECT_EQ(image.height, 1 + 3 * 31);
  EXPECT_EQ(image.width, 1 + 2 * 31);
  EXPECT_EQ(at(image, 1, 1), 255);
  EXPECT_EQ(at(image, 1 + 2 * 31, 1 + 31), 0);
}

TEST(Filters, OfManyAreLimited) {
  const Image image = filter_picture(std::vector<float>(100 * 300), {100, 300, 1, 1});
  EXPECT_LE((image.height - 1) / 31 * ((image.width - 1) / 31), kMostTiles);
  EXPECT_EQ(image.pixels.size(), static_cast<size_t>(image.height * image.width));
  EXPECT_EQ(filter_picture({0.5f, 0.5f}, {1, 2, 1, 1}).width, 1 + 2 * 31);
}

TEST(Filters, ActivationsAreBlackToWhite) {
  const Image image = activation_picture({-1, 0, 3, NAN}, {2, 1, 2});
  EXPECT_EQ(image.height, 1 + 31);
  EXPECT_EQ(image.width, 1 + 2 * 61);
  EXPECT_EQ(at(image, 1, 1), 0);
  EXPECT_EQ(at(image, 1, 31), 64);
  EXPECT_EQ(at(image, 1, 62), 255);
  EXPECT_EQ(at(image, 1, 92), 0);
  EXPECT_EQ(at(activation_picture({7}, {1, 1, 1}), 1, 1), 128);
}

}  // namespace
}  // namespace duet
