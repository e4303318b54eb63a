// One picture in memory, and how it is made to fit a network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace duet {

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;         // 1: grey; 3: red, green, blue
  std::vector<uint8_t> pixels;  // height x width x channels, row-major
};

/// "32x24": width x height, as messages tell a size.
std::string size_text(int64_t height, int64_t width);

/// One channel: (19595 red + 38470 green + 7471 blue + 32768) >> 16, ITU-R 601-2 as Pillow rounds
/// it in convert("L").
Image to_grey(const Image& image);
/// Three equal channels of a grey image, as Pillow's convert("RGB"); others stay.
Image to_rgb(const Image& image);
/// Bilinear, averaging over what a pixel covers where the image becomes smaller: to the byte what
/// resize((width, height), BILINEAR) of Pillow up to version 12 gives. The shape may change with it.
Image resize(const Image& image, int64_t height, int64_t width);

/// Turned and mirrored as EXIF's orientation (1 to 8) says that it is to be seen; what Pillow's
/// ImageOps.exif_transpose gives.
Image upright(Image image, int orientation);

}  // namespace duet
