// PNG files made of pictures, by libpng's simplified interface.
#include <png.h>

#include "core/error.h"
#include "data/format/image_file.h"

namespace duet {

std::string png_of(const Image& image) {
  png_image png{};
  png.version = PNG_IMAGE_VERSION;
  png.width = static_cast<png_uint_32>(image.width);
  png.height = static_cast<png_uint_32>(image.height);
  png.format = image.channels == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  std::string bytes;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(png);
  bytes.resize(size);
  if (!png_image_write_to_memory(&png, bytes.data(), &size, 0, image.pixels.data(), 0, nullptr)) {
    throw RunError(std::string("a picture cannot be written as PNG: ") + png.message);
  }
  bytes.resize(size);
  return bytes;
}

}  // namespace duet
