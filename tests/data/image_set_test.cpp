// Pictures as images of a data set: against what Pillow makes of them (tests/pillow), and what
// cannot be used.
#include "data/image_set.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/exif.h"
#include "data/image_file.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

const std::string kPictureFolder = DUET_SOURCE_DIR "/tests/data/pictures/";

const json& pillow() {
  static const json pictures =
      json::parse(std::ifstream(std::string(DUET_SOURCE_DIR) + "/tests/pillow/pictures.json"));
  return pictures;
}

Image image_of(const json& object) {
  return {object["height"], object["width"], object["channels"],
          object["pixels"].get<std::vector<uint8_t>>()};
}

std::string bytes_of_picture(const std::string& name) {
  std::ifstream file(kPictureFolder + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(ImageSet, FitsAsPillowAndTorchvision) {
  for (const json& each : pillow()["fits"]) {
    const Image image = image_of(each["image"]), expected = image_of(each["result"]);
    PictureRules rules{.channels = image.channels};
    rules.height = each["size"][0];
    rules.width = each["size"][1];
    if (each["resize"].is_array()) {
      rules.resize = {each["resize"][0], each["resize"][1]};
    } else {
      rules.shorter = each["resize"];
    }
    const Image found = fit(image, rules);
    EXPECT_EQ(found.height, expected.height);
    EXPECT_EQ(found.width, expected.width);
    EXPECT_EQ(found.pixels, expected.pixels) << each["resize"];
  }
}

TEST(ImageSet, TurnsAsPillow) {
  for (const json& each : pillow()["uprights"]) {
    const Image expected = image_of(each["result"]);
    const Image found = upright(image_of(each["image"]), each["orientation"]);
    EXPECT_EQ(found.height, expected.height) << each["orientation"];
    EXPECT_EQ(found.pixels, expected.pixels) << each["orientation"];
  }
}

// An APP1 segment's content with one entry, the orientation.
std::string exif(char orientation, bool little) {
  std::string data(kExifStart);
  data += little ? std::string("II\x2a\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0", 18)
                 : std::string("MM\0\x2a\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1", 18);
  data += little ? std::string({orientation, 0, 0, 0}) : std::string({0, orientation, 0, 0});
  return data + std::string(4, '\0');
}

TEST(ImageSet, OrientationOfExif) {
  for (const bool little : {false, true}) {
    EXPECT_EQ(exif_orientation(exif(6, little)), 6);
    EXPECT_EQ(exif_orientation(exif(9, little)), 1);
    const std::string whole = exif(8, little);
    for (size_t i = kExifStart.size(); i < whole.size(); ++i) {
      const int found = exif_orientation(whole.substr(0, i));
      EXPECT_TRUE(found == 1 || found == 8);
    }
  }
  // A directory far outside, with as many entries as can be.
  EXPECT_EQ(
      exif_orientation(std::string(kExifStart) + "II\x2a" + std::string("\0\xff\xff\xff\xff", 5)),
      1);
}

TEST(ImageSet, AJpegIsTurnedAsItsExifSays) {
  const TemporaryFolder folder;
  const std::string jpeg = bytes_of_picture("colour.jpg"), data = exif(6, false);
  const size_t length = data.size() + 2;
  const std::string segment = std::string("\xff\xe1") + static_cast<char>(length >> 8) +
                              static_cast<char>(length & 255) + data;
  folder.write("turned.jpg", jpeg.substr(0, 2) + segment + jpeg.substr(2));
  const Image plain = read_image_file(kPictureFolder + "colour.jpg");
  const Image turned = read_image_file(folder / "turned.jpg");
  EXPECT_EQ(turned.height, plain.width);
  EXPECT_EQ(turned.width, plain.height);
  EXPECT_EQ(turned.pixels, upright(plain, 6).pixels);
}

TEST(ImageSet, ReadsInOrderChannelByChannel) {
  Dataset data;
  const PictureRules rules{.channels = 3, .height = 4, .width = 5};
  const Split split = read_labelled_files(
      {{kPictureFolder + "grey.png", 4}, {kPictureFolder + "colour.png", 2}}, rules, data);
  EXPECT_EQ(split.labels, std::vector<int32_t>({4, 2}));
  ASSERT_EQ(split.images.size(), 120u);
  for (size_t c = 0; c < 3; ++c) EXPECT_EQ(split.images[20 * c], 175);
  EXPECT_EQ(split.images[60], 68);
  EXPECT_EQ(split.images[80], 176);
  EXPECT_TRUE(data.warnings.empty());
  EXPECT_EQ(data.left_out.count, 0);
}

TEST(ImageSet, WhatCannotBeReadIsNamedOrLeftOut) {
  const TemporaryFolder folder;
  folder.write("half.png", bytes_of_picture("colour.png").substr(0, 100));
  folder.write("half.jpg", bytes_of_picture("colour.jpg").substr(0, 300));
  folder.write("text.png", "hello");
  const std::vector<LabelledFile> files = {
      {folder / "half.png", 0},         {kPictureFolder + "colour.png", 1},
      {folder / "half.jpg", 2},         {kPictureFolder + "cmyk.jpg", 3},
      {folder / "text.png", 4},         {kPictureFolder + "transparent.png", 5},
      {kPictureFolder + "huge.png", 6}, {kPictureFolder + "grey.png", 7}};
  PictureRules rules{.channels = 3, .height = 4, .width = 5};
  Dataset data;
  const std::string message = error_of<DataError>([&] { read_labelled_files(files, rules, data); });
  EXPECT_TRUE(has(message, "6 of 8 pictures cannot be read:\n", "half.png: ", "half.jpg: ",
                  "cmyk.jpg: has the colours of a printer", "text.png: is no picture",
                  "transparent.png: ", "huge.png: is", "on_error: skip"));
  EXPECT_EQ(lines_of(message).size(), 8u);
  rules.skip = true;
  const Split split = read_labelled_files(files, rules, data);
  EXPECT_EQ(split.count, 2);
  EXPECT_EQ(split.labels, std::vector<int32_t>({1, 7}));
  ASSERT_EQ(split.images.size(), 120u);
  EXPECT_EQ(split.images[0], 68);
  EXPECT_EQ(split.images[60], 175);
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_TRUE(has(data.warnings[0], "6 of 8 pictures cannot be read and are left out", "half.jpg"));
  EXPECT_EQ(data.left_out.count, 6);
  ASSERT_EQ(data.left_out.named.size(), 6u);
  EXPECT_TRUE(has(data.left_out.named[0], (folder / "half.png").string()));
  EXPECT_TRUE(has(data.left_out.named[3], (folder / "text.png").string() + ": is no picture"));
  // Of another split too, and no more names than fit into a report.
  read_labelled_files(std::vector<LabelledFile>(30, {folder / "text.png", 0}), rules, data);
  EXPECT_EQ(data.left_out.count, 36);
  EXPECT_EQ(data.left_out.named.size(), LeftOut::kMostNamed);
}

TEST(ImageSet, AnotherSizeIsAMistakeEvenWithSkip) {
  const PictureRules rules{.channels = 1, .height = 8, .width = 6, .skip = true};
  Dataset data;
  EXPECT_TRUE(has(error_of<DataError>([&] {
                    read_labelled_files({{kPictureFolder + "grey.png", 0}}, rules, data);
                  }),
                  "grey.png: is 5x4 pixels (width x height), and data.size is 6x8",
                  "data.resize: 8"));
}

}  // namespace
}  // namespace duet
