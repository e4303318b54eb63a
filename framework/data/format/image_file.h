// Pictures in files: PNG and JPEG; and PNG files made of pictures.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "data/format/image.h"

namespace duet {

/// What the first bytes of a file say that it is.
enum class FileKind { kPng, kJpeg, kIdx, kGzip, kOther };
/// Throws DataError as InputFile does.
FileKind kind_of_file(const std::filesystem::path& path);

/// Reads a PNG or JPEG file, grey or colour as it is. Palettes and fewer than 8 bits a channel are
/// expanded, 16 bits scaled to 8; a JPEG is turned as its EXIF orientation says; colour profiles and
/// gamma are ignored, as by Pillow. Throws DataError, with the file: no picture, truncated or corrupt, more than
/// kMostFileBytes, kMostPixels or kMostSide (before memory is taken), transparent pixels, or CMYK.
Image read_image_file(const std::filesystem::path& path);

inline constexpr uint64_t kMostFileBytes = uint64_t{1} << 28;
inline constexpr uint64_t kMostPixels = uint64_t{1} << 26;
inline constexpr uint64_t kMostSide = 65535;

/// The same of a file's content; errors are without its name.
Image read_png(std::string_view bytes);
Image read_jpeg(std::string_view bytes);
/// A PNG file's content, of a grey or colour picture.
std::string png_of(const Image& image);
/// Throws DataError if an image has more than kMostPixels, or more than fit into the memory that is
/// free, or if a side is longer than kMostSide.
void check_image_size(uint64_t height, uint64_t width);
/// The same for the image that resample() makes of one of from_height x from_width, and for the
/// image between its two passes; and if a side is shorter than 1. The message has both sizes.
void check_resized(int64_t from_height, int64_t from_width, int64_t height, int64_t width);

}  // namespace duet
