// Pictures as images of a data set: against what Pillow makes of them (tests/pillow), and what
// cannot be used.
#include "data/set/image_set.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "data/format/exif.h"
#include "data/format/image_file.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;
using Bytes = std::vector<uint8_t>;

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

// TIFF data with one entry, the orientation, of that type and count; `values` behind all, or in the entry.
std::string tiff(bool little, int type, uint64_t count,
                 const std::vector<std::pair<uint64_t, int>>& values) {
  const auto number = [&](uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) {
      text += static_cast<char>(value >> 8 * (little ? i : bytes - 1 - i));
    }
    return text;
  };
  std::string packed;
  for (const auto& [value, bytes] : values) packed += number(value, bytes);
  const std::string start = std::string(little ? "II" : "MM") + number(42, 2) + number(8, 4) +
                            number(1, 2) + number(0x112, 2) + number(type, 2) + number(count, 4);
  if (packed.size() > 4) return start + number(26, 4) + number(0, 4) + packed;
  return start + packed + std::string(8 - packed.size(), '\0');
}

// As Pillow 13's exif_transpose takes it.
TEST(ImageSet, OrientationOfEveryWholeNumber) {
  for (const bool little : {false, true}) {
    for (const auto& [type, bytes] :
         {std::pair(3, 2), {4, 4}, {6, 1}, {8, 2}, {9, 4}, {13, 4}, {16, 8}}) {
      EXPECT_EQ(exif_orientation(tiff(little, type, 1, {{6, bytes}})), 6) << type;
      EXPECT_EQ(exif_orientation(tiff(little, type, 1, {{0x106, bytes}})), bytes == 1 ? 6 : 1)
          << type;
      EXPECT_EQ(exif_orientation(tiff(little, type, 0, {{6, bytes}})), 1) << type;
    }
    EXPECT_EQ(exif_orientation(tiff(little, 4, 1, {{0x10006, 4}})), 1);
    // Of several the first.
    EXPECT_EQ(exif_orientation(tiff(little, 3, 2, {{6, 2}, {3, 2}})), 6);
    EXPECT_EQ(exif_orientation(tiff(little, 3, 3, {{6, 2}, {3, 2}, {3, 2}})), 6);
    EXPECT_EQ(exif_orientation(tiff(little, 4, 2, {{6, 4}, {3, 4}})), 6);
    // Bytes and text are no numbers.
    for (const int type : {0, 1, 2, 7, 99}) {
      EXPECT_EQ(exif_orientation(tiff(little, type, 1, {{6, 1}})), 1) << type;
    }
  }
  const std::string right = tiff(true, 3, 1, {{6, 2}});
  EXPECT_EQ(exif_orientation(std::string(kExifStart) + std::string(kExifStart) + right), 6);
  EXPECT_EQ(exif_orientation("XX" + right.substr(2)), 1);
  EXPECT_EQ(exif_orientation(""), 1);
}

TEST(ImageSet, AJpegIsTurnedAsItsExifSays) {
  const TemporaryFolder folder;
  const std::string jpeg = bytes_of_picture("colour.jpg");
  const Image plain = read_image_file(kPictureFolder + "colour.jpg");
  const auto segment = [](const std::string& data) {
    const size_t length = data.size() + 2;
    return std::string("\xff\xe1") + static_cast<char>(length >> 8) +
           static_cast<char>(length & 255) + data;
  };
  const std::string start(kExifStart), wide = start + tiff(true, 4, 1, {{6, 4}});
  for (const std::string& segments :
       {segment(exif(6, false)), segment(wide),
        segment(wide.substr(0, 20)) + segment(start + wide.substr(20))}) {
    folder.write("turned.jpg", jpeg.substr(0, 2) + segments + jpeg.substr(2));
    const Image turned = read_image_file(folder / "turned.jpg");
    EXPECT_EQ(turned.height, plain.width);
    EXPECT_EQ(turned.width, plain.height);
    EXPECT_EQ(turned.pixels, upright(plain, 6).pixels);
  }
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

// By its shorter side a narrow picture becomes as long as none can be.
TEST(ImageSet, WhatResizingWouldMakeTooLargeIsNamed) {
  const TemporaryFolder folder;
  folder.write("narrow.png", png_of({2, 1000, 1, Bytes(2000)}));
  folder.write("high.png", png_of({40000, 1, 1, Bytes(40000)}));
  const std::vector<LabelledFile> files = {{kPictureFolder + "grey.png", 0},
                                           {folder / "narrow.png", 0}};
  PictureRules rules{.channels = 1, .height = 200, .width = 200, .shorter = 200};
  Dataset data;
  EXPECT_TRUE(
      has(error_of<DataError>([&] { read_labelled_files(files, rules, data); }),
          "1 of 2 pictures cannot be read:\n" + (folder / "narrow.png").string() +
              ": is 1000x2 pixels (width x height), and would become 100000x200; at most 65535"));
  rules.skip = true;
  EXPECT_EQ(read_labelled_files(files, rules, data).count, 1);
  ASSERT_EQ(data.left_out.named.size(), 1u);
  EXPECT_TRUE(has(data.left_out.named[0], (folder / "narrow.png").string() + ": is 1000x2"));
  // Its rows are scaled before there are fewer of them.
  rules.shorter = 0;
  rules.resize = {200, 4000};
  EXPECT_TRUE(has(error_of<DataError>([&] { fit(read_image_file(folder / "high.png"), rules); }),
                  "is 1x40000 pixels (width x height), and would become 4000x200, on the way "
                  "4000x40000; at most"));
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
