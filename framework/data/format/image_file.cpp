#include "data/format/image_file.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/input_file.h"
#include "device/host_memory.h"

namespace duet {
namespace {

constexpr uint64_t kLargeImage = uint64_t{1} << 24;  // bytes, worth asking how many are free
constexpr std::string_view kPngStart = "\x89PNG\r\n\x1a\n";
constexpr std::string_view kJpegStart = "\xff\xd8\xff";
constexpr std::string_view kIdxStart = std::string_view("\0\0\x08", 3);
constexpr std::string_view kGzipStart = "\x1f\x8b";

FileKind kind_of_bytes(std::string_view bytes) {
  if (bytes.starts_with(kPngStart)) return FileKind::kPng;
  if (bytes.starts_with(kJpegStart)) return FileKind::kJpeg;
  if (bytes.starts_with(kIdxStart)) return FileKind::kIdx;
  if (bytes.starts_with(kGzipStart)) return FileKind::kGzip;
  return FileKind::kOther;
}

// Why there can be no image of that size; empty if there can.
std::string why_too_large(uint64_t height, uint64_t width) {
  if (height > kMostSide || width > kMostSide || height * width > kMostPixels) {
    return "at most " + std::to_string(kMostSide) + " either way, and " +
           std::to_string(kMostPixels) + " in all, are possible";
  }
  const uint64_t bytes = 2 * 3 * height * width;  // read, and resized
  if (bytes > kLargeImage && bytes > available_memory().value_or(bytes)) {
    return "there is too little memory for it";
  }
  return "";
}

}  // namespace

FileKind kind_of_file(const std::filesystem::path& path) {
  char start[8];
  return kind_of_bytes({start, InputFile(path).read(0, start, sizeof start)});
}

void check_image_size(uint64_t height, uint64_t width) {
  const std::string why = why_too_large(height, width);
  if (why.empty()) return;
  throw DataError("is " + std::to_string(width) + " pixels wide and " + std::to_string(height) +
                  " high; " + why);
}

void check_resized(int64_t from_height, int64_t from_width, int64_t height, int64_t width) {
  const std::string sizes = "is " + size_text(from_height, from_width) +
                            " pixels (width x height), and would become " +
                            size_text(height, width);
  if (std::min({from_height, from_width, height, width}) < 1) {
    throw DataError(sizes + "; every side needs at least 1 pixel");
  }
  for (const int64_t rows : {height, from_height}) {  // every row is scaled first
    const std::string why =
        why_too_large(static_cast<uint64_t>(rows), static_cast<uint64_t>(width));
    if (why.empty()) continue;
    throw DataError(sizes + (rows == height ? "" : ", on the way " + size_text(rows, width)) +
                    "; " + why);
  }
}

Image read_image_file(const std::filesystem::path& path) {
  const std::string bytes = read_input_file(path, kMostFileBytes);
  try {
    switch (kind_of_bytes(bytes)) {
      case FileKind::kPng:
        return read_png(bytes);
      case FileKind::kJpeg:
        return read_jpeg(bytes);
      default:
        throw DataError("is no picture: expected PNG or JPEG");
    }
  } catch (const DataError& error) {
    throw DataError(path.string() + ": " + error.what());
  }
}

}  // namespace duet
