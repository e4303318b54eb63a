#include "data/image.h"

#include <algorithm>
#include <cmath>

namespace duet {
namespace {

constexpr int kPrecision = 22;  // bits of a weight behind the point, Pillow's

// What one pixel of the result is made of.
struct Window {
  int64_t first = 0;             // pixel of the source
  std::vector<int64_t> weights;  // of 1 << kPrecision, of the pixels from `first` on
};

double triangle(double x) { return std::max(0.0, 1.0 - std::fabs(x)); }

// The windows of a row or column of `from` pixels that is to have `to`.
std::vector<Window> windows_of(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  std::vector<Window> windows;
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t first = std::max(int64_t{0}, static_cast<int64_t>(center - support + 0.5));
    const int64_t end = std::min(from, static_cast<int64_t>(center + support + 0.5));
    std::vector<double> weights;
    double sum = 0.0;
    for (int64_t x = first; x < end; ++x) {
      weights.push_back(triangle((static_cast<double>(x) - center + 0.5) * (1.0 / support)));
      sum += weights.back();
    }
    Window& window = windows.emplace_back(Window{first, {}});
    for (const double weight : weights) {
      window.weights.push_back(static_cast<int64_t>(0.5 + weight / sum * (1 << kPrecision)));
    }
  }
  return windows;
}

// The sum over a window of the bytes at `from`, `step` apart.
uint8_t weighted(const Window& window, const uint8_t* from, int64_t step) {
  int64_t sum = int64_t{1} << (kPrecision - 1);
  const uint8_t* at = from + window.first * step;
  for (size_t k = 0; k < window.weights.size(); ++k, at += step) sum += *at * window.weights[k];
  return static_cast<uint8_t>(std::clamp<int64_t>(sum >> kPrecision, 0, 255));
}

Image resize_rows(const Image& image, int64_t width) {
  const std::vector<Window> windows = windows_of(image.width, width);
  const int64_t channels = image.channels;
  Image result{image.height, width, channels, {}};
  result.pixels.reserve(static_cast<size_t>(image.height * width * channels));
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.pixels.data() + y * image.width * channels;
    for (const Window& window : windows) {
      for (int64_t c = 0; c < channels; ++c) {
        result.pixels.push_back(weighted(window, row + c, channels));
      }
    }
  }
  return result;
}

Image resize_columns(const Image& image, int64_t height) {
  const int64_t row = image.width * image.channels;  // bytes
  Image result{height, image.width, image.channels, {}};
  result.pixels.reserve(static_cast<size_t>(height * row));
  for (const Window& window : windows_of(image.height, height)) {
    for (int64_t i = 0; i < row; ++i) {
      result.pixels.push_back(weighted(window, image.pixels.data() + i, row));
    }
  }
  return result;
}

}  // namespace

std::string size_text(int64_t height, int64_t width) {
  return std::to_string(width) + "x" + std::to_string(height);
}

Image to_grey(const Image& image) {
  if (image.channels == 1) return image;
  Image grey{image.height, image.width, 1, {}};
  grey.pixels.reserve(image.pixels.size() / 3);
  for (size_t i = 0; i + 2 < image.pixels.size(); i += 3) {
    const uint32_t red = image.pixels[i], green = image.pixels[i + 1], blue = image.pixels[i + 2];
    const uint32_t sum = 19595 * red + 38470 * green + 7471 * blue + 0x8000;
    grey.pixels.push_back(static_cast<uint8_t>(sum >> 16));
  }
  return grey;
}

Image to_rgb(const Image& image) {
  if (image.channels == 3) return image;
  Image rgb{image.height, image.width, 3, {}};
  rgb.pixels.reserve(3 * image.pixels.size());
  for (const uint8_t value : image.pixels) rgb.pixels.insert(rgb.pixels.end(), 3, value);
  return rgb;
}

Image resize(const Image& image, int64_t height, int64_t width) {
  // Pillow's order; the bytes in between are rounded.
  const Image rows = width == image.width ? image : resize_rows(image, width);
  return height == rows.height ? rows : resize_columns(rows, height);
}

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const bool transposed = orientation >= 5;
  const bool mirrored =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool upside_down =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  // As it lies in the file, (row, column) is read where the upright one has (y, x).
  Image result{transposed ? image.width : image.height,
               transposed ? image.height : image.width,
               image.channels,
               {}};
  result.pixels.reserve(image.pixels.size());
  for (int64_t y = 0; y < result.height; ++y) {
    for (int64_t x = 0; x < result.width; ++x) {
      int64_t row = transposed ? x : y, column = transposed ? y : x;
      if (upside_down) row = image.height - 1 - row;
      if (mirrored) column = image.width - 1 - column;
      const auto pixel = image.pixels.begin() + (row * image.width + column) * image.channels;
      result.pixels.insert(result.pixels.end(), pixel, pixel + image.channels);
    }
  }
  return result;
}

}  // namespace duet
