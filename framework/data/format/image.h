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

/// The pixels channel after channel, each row-major, as data sets and networks have them:
/// channels x height x width bytes.
std::vector<uint8_t> planes_of(const Image& image);
/// The image of such bytes.
Image image_of_planes(const uint8_t* planes, int64_t channels, int64_t height, int64_t width);

/// The part of that size whose left upper pixel is (top, left). REQUIRES: it lies within the image.
Image crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width);

/// "32x24": width x height, as messages tell a size.
std::string size_text(int64_t height, int64_t width);

/// One channel of full range: (19595 red + 38470 green + 7471 blue + 32768) >> 16, ITU-R BT.601 as
/// Pillow rounds it in convert("L"). A grey image stays as it is.
Image to_grey(const Image& image);
/// One channel of limited range, 16 (black) to 235 (white): Y of ITU-R BT.601, 16 + (65.481 red +
/// 128.553 green + 24.966 blue) / 255. It is the formula of MATLAB's rgb2ycbcr, and what most
/// papers on super-resolution measure PSNR on. Rounded to the nearest integer, exact halves up: 194
/// colours have one, and programs that sum in floating point round about half of these down. A grey
/// image is treated as equal red, green and blue.
Image to_limited_luma(const Image& image);
/// Three equal channels of a grey image, as Pillow's convert("RGB"); others stay.
Image to_rgb(const Image& image);
/// Turned and mirrored as EXIF's orientation (1 to 8) says that it is to be seen; what Pillow's
/// ImageOps.exif_transpose gives.
Image upright(Image image, int orientation);

}  // namespace duet
