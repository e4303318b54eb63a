// Files that a user names, as images of a network's size and channels.
#include "data/set/pictures.h"

#include <gtest/gtest.h>

#include "data/format/image_file.h"
#include "data/set/image_set.h"
#include "support/small_split.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using Bytes = std::vector<uint8_t>;

const std::string kFolder = DUET_SOURCE_DIR "/tests/data/pictures/";
const Bytes kGreyStart = {175, 196, 25, 246, 67};  // the first row of grey.png

std::string refusal(const std::vector<std::string>& files, const DatasetInfo& info,
                    bool resize = false) {
  return error_of<DataError>([&] { read_pictures(files, info, resize); });
}

// An IDX file of `count` images of 2 x 3 pixels: 0, 1, 2, ...
std::string idx(uint8_t count) {
  std::string bytes = {0, 0, 8, 3, 0, 0, 0, static_cast<char>(count), 0, 0, 0, 2, 0, 0, 0, 3};
  for (int i = 0; i < count * 6; ++i) bytes += static_cast<char>(i);
  return bytes;
}

TEST(Pictures, AreGreyOrColourAsTheNetworkTakesThem) {
  const std::vector<std::string> files = {kFolder + "grey.png", kFolder + "colour.png"};
  const Pictures grey = read_pictures(files, make_info(1, 4, 5), false);
  EXPECT_EQ(grey.names, files);
  ASSERT_EQ(grey.images.size(), 40u);
  EXPECT_TRUE(std::equal(kGreyStart.begin(), kGreyStart.end(), grey.images.begin()));
  EXPECT_EQ(grey.images[20], 138);  // of 68, 176, 127
  const Pictures colours = read_pictures(files, make_info(3, 4, 5), false);
  ASSERT_EQ(colours.images.size(), 120u);
  for (size_t c = 0; c < 3; ++c) EXPECT_EQ(colours.images[20 * c], 175);
  // Channel by channel: the first pixel, and the second.
  EXPECT_EQ(colours.images[60], 68);
  EXPECT_EQ(colours.images[61], 135);
  EXPECT_EQ(colours.images[80], 176);
  EXPECT_EQ(colours.images[100], 127);
  EXPECT_TRUE(has(refusal(files, make_info(2, 4, 5)), "takes images of 2 channels", "1 (grey)"));
}

TEST(Pictures, OfAnotherSizeAreResizedIfAskedTo) {
  const DatasetInfo info = make_info(1, 2, 3);
  const std::string file = kFolder + "grey.png";
  EXPECT_TRUE(has(refusal({file}, info), "grey.png: is 5x4 pixels (width x height)",
                  "the network takes 3x2", "--resize"));
  EXPECT_EQ(read_pictures({file}, info, true).images, Bytes({171, 105, 138, 116, 113, 151}));
}

TEST(Pictures, AreFittedAsTheDataSetFitsItsOwn) {
  const DatasetInfo info = make_info(1, 2, 2);
  const std::string file = kFolder + "grey.png";
  const PictureRules rules{.channels = 1, .height = 2, .width = 2, .shorter = 3};
  const Image expected = fit(read_image_file(file), rules);
  EXPECT_EQ(read_pictures({file}, info, false, fit_by(rules)).images, expected.pixels);
  // --resize wins: it takes all of the picture.
  EXPECT_EQ(read_pictures({file}, info, true, fit_by(rules)).images,
            read_pictures({file}, info, true).images);
  EXPECT_NE(read_pictures({file}, info, true).images, expected.pixels);
  EXPECT_FALSE(fit_by({.channels = 1, .height = 2, .width = 2}));
}

TEST(Pictures, WhatResizingWouldMakeTooLargeIsNamed) {
  const TemporaryFolder folder;
  const std::string narrow = folder / "narrow.png", high = folder / "high.png";
  folder.write("narrow.png", png_of({2, 1000, 1, Bytes(2000)}));
  folder.write("high.png", png_of({40000, 1, 1, Bytes(40000)}));
  const PictureRules rules{.channels = 1, .height = 200, .width = 200, .shorter = 200};
  EXPECT_EQ(error_of<DataError>(
                [&] { read_pictures({narrow}, make_info(1, 200, 200), false, fit_by(rules)); }),
            narrow + ": is 1000x2 pixels (width x height), and would become 100000x200; at most " +
                std::to_string(kMostSide) + " either way, and " + std::to_string(kMostPixels) +
                " in all, are possible");
  EXPECT_TRUE(has(refusal({high}, make_info(1, 200, 4000), true),
                  high + ": is 1x40000 pixels (width x height), and would become 4000x200, on the "
                         "way 4000x40000; at most"));
}

TEST(Pictures, OfAnIdxFileAreAllOrOne) {
  const TemporaryFolder folder;
  folder.write("images", idx(3));
  const std::string file = folder / "images";
  const DatasetInfo info = make_info(1, 2, 3);
  const Pictures all = read_pictures({file}, info, false);
  EXPECT_EQ(all.names, std::vector<std::string>({file + ":0", file + ":1", file + ":2"}));
  ASSERT_EQ(all.images.size(), 18u);
  EXPECT_EQ(all.images[17], 17);
  const Pictures one = read_pictures({file + ":1"}, info, false);
  EXPECT_EQ(one.names, std::vector<std::string>{file + ":1"});
  EXPECT_EQ(one.images, Bytes({6, 7, 8, 9, 10, 11}));
  EXPECT_TRUE(has(refusal({file + ":3"}, info), "no image 3", "3 images", "from 0"));
  EXPECT_TRUE(has(refusal({file}, make_info(1, 4, 5)), "is 3x2 pixels", "--resize"));
  EXPECT_EQ(read_pictures({file}, make_info(1, 4, 5), true).images.size(), 60u);
  folder.write("empty", idx(0));
  EXPECT_TRUE(has(refusal({folder / "empty"}, info), "holds no images"));
  folder.write("short", idx(3).substr(0, 20));
  EXPECT_TRUE(has(refusal({folder / "short"}, info), "truncated"));
  // A file of that very name comes first.
  folder.write("images:1", idx(2));
  EXPECT_EQ(read_pictures({file + ":1"}, info, false).names.size(), 2u);
}

TEST(Pictures, EveryMistakeIsTold) {
  const TemporaryFolder folder;
  folder.write("text", "hello");
  const std::string message = refusal({kFolder + "none.png", folder / "text", folder.path(),
                                       kFolder + "grey.png:0", kFolder + "grey.png"},
                                      make_info(1, 4, 5));
  EXPECT_TRUE(has(message, "none.png: cannot open", "text: is no picture", "IDX", "is a folder",
                  "grey.png: is not an IDX file"));
  EXPECT_EQ(lines_of(message).size(), 4u);
}

}  // namespace
}  // namespace duet
