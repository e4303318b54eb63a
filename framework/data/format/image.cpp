#include "data/format/image.h"

namespace duet {
namespace {

// A grey image of what `value` makes of each pixel's red, green and blue.
template <class Value>
Image grey_by(const Value& value, const Image& colours) {
  Image grey{colours.height, colours.width, 1, {}};
  grey.pixels.reserve(colours.pixels.size() / 3);
  for (size_t i = 0; i + 2 < colours.pixels.size(); i += 3) {
    const uint32_t red = colours.pixels[i], green = colours.pixels[i + 1],
                   blue = colours.pixels[i + 2];
    grey.pixels.push_back(static_cast<uint8_t>(value(red, green, blue)));
  }
  return grey;
}

}  // namespace

std::vector<uint8_t> planes_of(const Image& image) {
  std::vector<uint8_t> planes;
  planes.reserve(image.pixels.size());
  const auto channels = static_cast<size_t>(image.channels);
  for (size_t c = 0; c < channels; ++c) {
    for (size_t i = c; i < image.pixels.size(); i += channels) planes.push_back(image.pixels[i]);
  }
  return planes;
}

Image image_of_planes(const uint8_t* planes, int64_t channels, int64_t height, int64_t width) {
  const auto pixels = static_cast<size_t>(height * width);
  const auto count = static_cast<size_t>(channels);
  Image image{height, width, channels, std::vector<uint8_t>(pixels * count)};
  for (size_t c = 0; c < count; ++c) {
    for (size_t i = 0; i < pixels; ++i) image.pixels[i * count + c] = planes[c * pixels + i];
  }
  return image;
}

Image crop(const Image& image, int64_t top, int64_t left, int64_t height, int64_t width) {
  Image result{height, width, image.channels, {}};
  result.pixels.reserve(static_cast<size_t>(height * width * image.channels));
  for (int64_t y = top; y < top + height; ++y) {
    const auto row = image.pixels.begin() + (y * image.width + left) * image.channels;
    result.pixels.insert(result.pixels.end(), row, row + width * image.channels);
  }
  return result;
}

std::string size_text(int64_t height, int64_t width) {
  return std::to_string(width) + "x" + std::to_string(height);
}

Image to_grey(const Image& image) {
  if (image.channels == 1) return image;
  const auto full_range = [](uint32_t red, uint32_t green, uint32_t blue) {
    return (19595 * red + 38470 * green + 7471 * blue + 0x8000) >> 16;
  };
  return grey_by(full_range, image);
}

Image to_limited_luma(const Image& image) {
  // The factors are 219 times 0.299, 0.587 and 0.114; their sum is exact in units of 1/255000.
  const auto limited_range = [](uint32_t red, uint32_t green, uint32_t blue) {
    return 16 + (219 * (299 * red + 587 * green + 114 * blue) + 127500) / 255000;
  };
  return grey_by(limited_range, to_rgb(image));
}

Image to_rgb(const Image& image) {
  if (image.channels == 3) return image;
  Image rgb{image.height, image.width, 3, {}};
  rgb.pixels.reserve(3 * image.pixels.size());
  for (const uint8_t value : image.pixels) rgb.pixels.insert(rgb.pixels.end(), 3, value);
  return rgb;
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
