// Resizes an image: each pixel of the result is a weighted mean of the pixels that a filter covers.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/format/image.h"

namespace duet {

/// Half-widths are in pixels of the source where the image is enlarged, and in pixels of the result
/// where it is shrunk: a filter then averages over all that it covers (antialiasing).
enum class ResampleFilter {
  kBox,       // constant; half-width 1/2
  kBilinear,  // triangle; half-width 1
  kHamming,   // sinc times a Hamming window; half-width 1
  kBicubic,   // Keys' cubic convolution (1981), a = -1/2; half-width 2
  kLanczos,   // sinc times the middle lobe of a sinc three times as wide; half-width 3
};
/// "box", "bilinear", "hamming", "bicubic", "lanczos"
const std::vector<std::string>& resample_filter_names();
/// REQUIRES: one of resample_filter_names().
ResampleFilter resample_filter_from(std::string_view name);

/// The image at height x width pixels; its shape may change. To the byte what Pillow 11's
/// resize((width, height), filter) gives for modes L and RGB: rows are resized before columns,
/// weights have 22 bits after the binary point, each pass rounds to the nearest byte and clamps to
/// 0..255, and a pass that changes no size is left out. Later versions of Pillow resize the columns
/// of some images first, which changes bytes by up to about 50 with kBicubic and kLanczos, as these
/// clamp: 12.2 and 12.3 where an image more than 100 times as high as wide becomes lower, 13 where
/// other images do. Throws DataError if a side of the image or of the result is shorter than 1, or
/// as check_resized() (image_file.h).
/// REQUIRES: image.pixels has height x width x channels bytes.
Image resample(const Image& image, int64_t height, int64_t width, ResampleFilter filter);

}  // namespace duet
