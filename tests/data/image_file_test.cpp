// PNG and JPEG files of data/pictures, which Pillow wrote, against what Pillow reads from them; and
// files that are no pictures, or not whole.
#include "data/format/image_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using Bytes = std::vector<uint8_t>;

std::string path_of(const std::string& name) {
  return DUET_SOURCE_DIR "/tests/data/pictures/" + name;
}

std::string content_of(const std::string& name) {
  std::ifstream file(path_of(name), std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_picture(const std::string& name, int64_t channels, const Bytes& pixels) {
  SCOPED_TRACE(name);
  const Image image = read_image_file(path_of(name));
  EXPECT_EQ(image.height, 4);
  EXPECT_EQ(image.width, 5);
  EXPECT_EQ(image.channels, channels);
  EXPECT_EQ(image.pixels, pixels);
}

std::string refusal(const std::string& path) {
  return error_of<DataError>([&] { read_image_file(path); });
}

const Bytes kGrey = {175, 196, 25, 246, 67,  211, 151, 103, 92,  185,
                     142, 23,  72, 89,  110, 42,  218, 136, 167, 230};
const Bytes kColour = {68,  176, 127, 135, 172, 0,   75,  55,  250, 6,   19,  188, 44,  191, 69,
                       56,  152, 183, 181, 112, 251, 189, 192, 34,  56,  201, 206, 38,  4,   238,
                       137, 87,  227, 195, 72,  83,  176, 1,   192, 144, 118, 159, 93,  172, 92,
                       252, 71,  23,  10,  233, 35,  192, 61,  135, 151, 92,  247, 224, 149, 100};

TEST(ImageFile, PngIsReadAsItWasWritten) {
  for (const Image& image : {Image{4, 5, 1, kGrey}, Image{4, 5, 3, kColour}}) {
    const Image read = read_png(png_of(image));
    EXPECT_EQ(read.height, 4);
    EXPECT_EQ(read.width, 5);
    EXPECT_EQ(read.channels, image.channels);
    EXPECT_EQ(read.pixels, image.pixels);
  }
}

TEST(ImageFile, ReadsEveryKindOfPng) {
  expect_picture("grey.png", 1, kGrey);
  expect_picture("colour.png", 3, kColour);
  expect_picture("opaque.png", 3, kColour);
  expect_picture("interlaced.png", 1, kGrey);  // with a gamma, which is ignored
  expect_picture("one_bit.png", 1, {255, 255, 0, 255, 0, 255, 255, 0,   0,   255,
                                    255, 0,   0, 0,   0, 0,   255, 255, 255, 255});
  expect_picture("palette.png", 3,
                 {37,  208, 103, 121, 178, 63,  64,  41,  226, 64,  41,  226, 37,  208, 103,
                  151, 133, 173, 151, 133, 173, 121, 178, 63,  37,  208, 103, 64,  41,  226,
                  151, 133, 173, 199, 78,  118, 184, 31,  164, 151, 133, 173, 121, 178, 63,
                  199, 78,  118, 37,  208, 103, 199, 78,  118, 151, 133, 173, 199, 78,  118});
  // Of 65535, rounded.
  expect_picture("sixteen_bits.png", 1, {175, 196, 25, 246, 67,  211, 151, 103, 92,  185,
                                         142, 23,  73, 90,  111, 43,  219, 137, 168, 231});
}

TEST(ImageFile, ReadsEveryKindOfJpeg) {
  const Bytes colours = {42, 200, 1,  68, 201, 16,  103, 199, 39,  135, 199, 59,  156, 202, 77,
                         37, 163, 28, 64, 165, 47,  98,  162, 66,  130, 162, 89,  151, 165, 106,
                         44, 131, 63, 72, 132, 81,  105, 130, 101, 137, 130, 124, 158, 132, 141,
                         38, 94,  91, 64, 96,  109, 99,  93,  129, 131, 93,  152, 152, 96,  169};
  expect_picture("colour.jpg", 3, colours);
  expect_picture("progressive.jpg", 3, colours);
  expect_picture("grey.jpg", 1, {130, 140, 152, 164, 174, 110, 121, 132, 144, 154,
                                 97,  108, 119, 131, 141, 77,  88,  99,  111, 121});
}

// A JPEG file in its parts: the start, segments, each scan with its tables before it, the end.
struct JpegParts {
  std::string head;
  std::vector<std::string> scans;

  explicit JpegParts(const std::string& jpeg) : head(jpeg.substr(0, 2)) {
    std::string tables;
    for (size_t at = 2; jpeg.at(at + 1) != '\xd9';) {
      const char marker = jpeg[at + 1];
      size_t end =
          at + 2 + static_cast<uint8_t>(jpeg[at + 2]) * 256u + static_cast<uint8_t>(jpeg[at + 3]);
      const bool is_scan = marker == '\xda';
      while (is_scan && (jpeg[end] != '\xff' || jpeg[end + 1] == '\0')) ++end;
      (is_scan || marker == '\xc4' ? tables : head) += jpeg.substr(at, end - at);
      if (is_scan) scans.push_back(std::exchange(tables, ""));
      at = end;
    }
  }
  std::string whole() const {
    std::string jpeg = head;
    for (const std::string& scan : scans) jpeg += scan;
    return jpeg + "\xff\xd9";
  }
};

// What libjpeg warns of though nothing is lost; Pillow 13 reads the same pixels.
TEST(ImageFile, OdditiesOfAJpegHeaderLoseNothing) {
  const std::string plain = content_of("colour.jpg");
  const Bytes expected = read_jpeg(plain).pixels;
  const auto expect_same = [&](const std::string& jpeg, const char* what) {
    SCOPED_TRACE(what);
    EXPECT_EQ(error_of<DataError>([&] { EXPECT_EQ(read_jpeg(jpeg).pixels, expected); }), "");
  };
  const size_t scan = plain.find("\xff\xda"), of_scan = static_cast<uint8_t>(plain[scan + 3]);
  const auto with = [&](size_t at, char value) {
    std::string jpeg = plain;
    jpeg.at(at) = value;
    return jpeg;
  };
  expect_same(with(scan + of_scan - 1, 1), "the first coefficient of a baseline scan");
  expect_same(with(scan + of_scan, 0), "the last, as some front cameras write it");
  expect_same(with(scan + of_scan + 1, 0x11), "the bits of an approximation");
  const size_t jfif = plain.find("JFIF");
  expect_same(with(jfif + 5, 9), "a later version of JFIF");
  const std::string adobe(
      "\xff\xee\0\x0e"
      "Adobe\0\x64\0\0\0\0\x07",
      16);
  const size_t behind_jfif = jfif - 2 + static_cast<uint8_t>(plain[jfif - 1]);
  expect_same(plain.substr(0, 2) + adobe + plain.substr(behind_jfif),
              "an unknown transform of colours");
  expect_same(plain.substr(0, scan) + "xyz" + plain.substr(scan), "bytes between markers");
  expect_same(plain + std::string(20, '\0'), "bytes at the end");
  JpegParts parts(content_of("progressive.jpg"));
  expect_same(parts.whole(), "progressive");
  std::swap(parts.scans.at(0), parts.scans.at(1));
  expect_same(parts.whole(), "other coefficients before the first");
  // With scans left out bits are lost, or all of a coefficient.
  parts = JpegParts(content_of("progressive.jpg"));
  std::erase_if(parts.scans, [](const std::string& scan) {
    const size_t at = scan.find("\xff\xda");
    return scan[at + static_cast<uint8_t>(scan[at + 3]) - 1] == 0;  // of the first coefficient
  });
  EXPECT_TRUE(has(error_of<DataError>([&] { read_jpeg(parts.whole()); }),
                  "no scan has component 0's mean"));
  parts = JpegParts(content_of("progressive.jpg"));
  parts.scans.erase(parts.scans.end() - 5);
  EXPECT_TRUE(
      has(error_of<DataError>([&] { read_jpeg(parts.whole()); }), "Inconsistent progression"));
}

TEST(ImageFile, WhatCannotBeKnownIsRefused) {
  for (const char* name : {"transparent.png", "transparent_grey.png"}) {
    EXPECT_TRUE(has(refusal(path_of(name)), name, "transparent pixels", "save it without"));
  }
  EXPECT_TRUE(has(refusal(path_of("cmyk.jpg")), "cmyk.jpg", "CMYK", "save it as RGB"));
}

// The headers announce 60000 x 60000 pixels; there are some bytes of data.
TEST(ImageFile, HugePicturesAreRefusedByTheirHeader) {
  for (const char* name : {"huge.png", "huge.jpg"}) {
    EXPECT_TRUE(has(refusal(path_of(name)), name, "60000 pixels wide and 60000 high",
                    std::to_string(kMostPixels)));
  }
  EXPECT_NO_THROW(check_image_size(kMostSide, 1));
  EXPECT_THROW(check_image_size(kMostSide + 1, 1), DataError);
  EXPECT_THROW(check_image_size(uint64_t{1} << 63, uint64_t{1} << 63), DataError);
}

TEST(ImageFile, EveryTruncationIsAnError) {
  const TemporaryFolder folder;
  for (const char* name :
       {"grey.png", "palette.png", "interlaced.png", "colour.jpg", "progressive.jpg"}) {
    const std::string content = content_of(name);
    // JPEG's end marker says nothing about the picture: a file may end in the middle of it.
    for (size_t bytes = 0; bytes + 2 < content.size(); ++bytes) {
      folder.write(name, content.substr(0, bytes));
      EXPECT_TRUE(has(refusal(folder / name), name)) << bytes;
    }
  }
}

// Whatever the bytes are: an image or an error.
TEST(ImageFile, ChangedBytesAreHarmless) {
  for (const char* name : {"colour.png", "palette.png", "interlaced.png", "colour.jpg",
                           "progressive.jpg", "grey.jpg"}) {
    const std::string content = content_of(name);
    for (size_t i = 0; i < content.size(); ++i) {
      for (const int bits : {0x01, 0x80, 0xff}) {
        std::string changed = content;
        changed[i] = static_cast<char>(changed[i] ^ bits);
        try {
          std::string_view(name).ends_with(".png") ? read_png(changed) : read_jpeg(changed);
        } catch (const DataError&) {
        }
      }
    }
  }
}

TEST(ImageFile, WhatIsNoPictureIsNamed) {
  const TemporaryFolder folder;
  folder.write("text.png", "hello, I am a text");
  folder.write("empty.png", "");
  ASSERT_EQ(mkfifo((folder / "pipe.png").c_str(), 0600), 0);
  EXPECT_TRUE(has(refusal(folder / "text.png"), "text.png: is no picture: expected PNG or JPEG"));
  EXPECT_TRUE(has(refusal(folder / "empty.png"), "empty.png: is no picture"));
  EXPECT_TRUE(has(refusal(folder / "pipe.png"), "is a pipe"));
  EXPECT_TRUE(has(refusal(folder.path()), "is a folder"));
  EXPECT_TRUE(has(refusal(folder / "none.png"), "none.png: cannot open"));
  // A name says nothing: content does.
  folder.write("picture.txt", content_of("grey.png"));
  EXPECT_EQ(read_image_file(folder / "picture.txt").pixels, kGrey);
}

}  // namespace
}  // namespace duet
