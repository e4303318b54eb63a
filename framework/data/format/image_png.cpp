// PNG, by libpng. Its errors are longjmps: functions with setjmp hold plain values only, and
// nothing with a destructor is made between setjmp and a call of libpng.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/printable.h"
#include "data/format/image_file.h"

namespace duet {
namespace {

// What libpng's callbacks are given.
struct Source {
  const char* at;
  const char* end;
  char error[200];
};

[[noreturn]] void on_error(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::snprintf(source->error, sizeof source->error, "%s", message);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t bytes) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (bytes > static_cast<size_t>(source->end - source->at))
    png_error(png, "the file is truncated");
  std::memcpy(to, source->at, bytes);
  source->at += bytes;
}

struct Header {
  png_uint_32 height, width;
};

bool read_header(png_structp png, png_infop info, Header* header) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_info(png, info);
  header->height = png_get_image_height(png, info);
  header->width = png_get_image_width(png, info);
  return true;
}

// Returns how many bytes a pixel has in what read_rows() will give; 0 if that fails.
int expand(png_structp png, png_infop info) {
  if (setjmp(png_jmpbuf(png))) return 0;
  png_set_expand(png);    // palettes, fewer than 8 bits, transparent colours
  png_set_scale_16(png);  // rounds
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return png_get_channels(png, info);
}

bool read_rows(png_structp png, png_bytep* rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

class PngReader {
 public:
  explicit PngReader(std::string_view bytes)
      : source_{bytes.data(), bytes.data() + bytes.size(), ""},
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, on_error, on_warning)),
        info_(png_ ? png_create_info_struct(png_) : nullptr) {
    if (!info_) {
      png_destroy_read_struct(&png_, nullptr, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png_, &source_, on_read);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // The pixels as they are: grey or colour, with alpha or without.
  Image read() {
    Header header{};
    if (!read_header(png_, info_, &header)) fail();
    check_image_size(header.height, header.width);
    const int channels = expand(png_, info_);
    if (channels == 0) fail();
    Image image{header.height, header.width, channels, {}};
    image.pixels.resize(size_t{header.height} * header.width * static_cast<size_t>(channels));
    std::vector<png_bytep> rows;
    for (size_t y = 0; y < header.height; ++y) {
      rows.push_back(image.pixels.data() + y * header.width * static_cast<size_t>(channels));
    }
    if (!read_rows(png_, rows.data())) fail();
    return image;
  }

 private:
  [[noreturn]] void fail() const {
    throw DataError("the PNG data cannot be read: " + printable(source_.error));
  }

  Source source_;
  png_structp png_;
  png_infop info_;
};

// Without an alpha channel that says nothing.
Image without_alpha(Image image) {
  if (image.channels % 2 != 0) return image;
  const auto channels = static_cast<size_t>(image.channels);
  std::vector<uint8_t>& pixels = image.pixels;
  size_t kept = 0;
  for (size_t i = 0; i < pixels.size(); i += channels) {
    if (pixels[i + channels - 1] != 255) {
      throw DataError(
          "has transparent pixels, and what is behind them is not known; save it without "
          "transparency");
    }
    for (size_t c = 0; c + 1 < channels; ++c) pixels[kept++] = pixels[i + c];
  }
  pixels.resize(kept);
  --image.channels;
  return image;
}

}  // namespace

Image read_png(std::string_view bytes) { return without_alpha(PngReader(bytes).read()); }

}  // namespace duet
