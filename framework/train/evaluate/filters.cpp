#include "train/evaluate/filters.h"

#include <algorithm>
#include <cmath>

namespace duet {
namespace {

constexpr int64_t kColumns = 16, kGap = 1;
constexpr int64_t kTileSide = 30;  // pixels that a tile has at least

/// Tiles of one size, beside and below each other.
struct Sheet {
  int64_t tiles, columns, height, width;  // of a tile in values, each a square of pixels
  int64_t channels = 1;
};

// `shade` of a tile, a channel, a row and a column of it is what is drawn there.
template <class Shade>
Image draw(const Sheet& sheet, const Shade& shade) {
  const int64_t side = std::min(sheet.height, sheet.width);
  const int64_t scale = std::max<int64_t>(1, (kTileSide + side - 1) / side);
  const int64_t height = sheet.height * scale, width = sheet.width * scale;
  const int64_t rows = (sheet.tiles + sheet.columns - 1) / sheet.columns;
  Image image;
  image.channels = sheet.channels;
  image.height = rows * (height + kGap) + kGap;
  image.width = sheet.columns * (width + kGap) + kGap;
  image.pixels.assign(static_cast<size_t>(image.height * image.width * image.channels), 255);
  for (int64_t tile = 0; tile < sheet.tiles; ++tile) {
    const int64_t top = kGap + tile / sheet.columns * (height + kGap);
    const int64_t left = kGap + tile % sheet.columns * (width + kGap);
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x) {
        for (int64_t channel = 0; channel < sheet.channels; ++channel) {
          const int64_t to = ((top + y) * image.width + left + x) * image.channels + channel;
          image.pixels[static_cast<size_t>(to)] = shade(tile, channel, y / scale, x / scale);
        }
      }
    }
  }
  return image;
}

// From `least`, black, to `largest`, white; where they are equal, grey. What is not finite is black.
uint8_t shade_of(float value, float least, float largest) {
  if (!std::isfinite(value)) return 0;
  const double share = largest > least ? (double{value} - least) / (double{largest} - least) : 0.5;
  return static_cast<uint8_t>(std::lround(255 * share));
}

}  // namespace

Image filter_picture(const std::vector<float>& weights, const std::vector<int64_t>& shape) {
  const int64_t k = shape[0], c = shape[1], r = shape[2], s = shape[3];
  const bool colour = c == 3;
  const int64_t planes = colour || c == 1 ? 1 : c;  // tiles of a filter
  const int64_t columns = std::min(planes == 1 ? std::min(k, kColumns) : planes, kMostTiles);
  const int64_t tiles = std::min(planes == 1 ? k : k * columns, kMostTiles / columns * columns);
  float largest = 0;
  for (const float weight : weights) {
    if (std::isfinite(weight)) largest = std::max(largest, std::fabs(weight));
  }
  const Sheet sheet = {tiles, columns, r, s, colour ? 3 : 1};
  return draw(sheet, [&](int64_t tile, int64_t channel, int64_t y, int64_t x) {
    const int64_t filter = planes == 1 ? tile : tile / columns;
    const int64_t plane = planes == 1 ? channel : tile % columns;
    const int64_t from = ((filter * c + plane) * r + y) * s + x;
    return shade_of(weights[static_cast<size_t>(from)], -largest, largest);
  });
}

Image activation_picture(const std::vector<float>& values, const std::vector<int64_t>& shape) {
  const int64_t c = shape[0], h = shape[1], w = shape[2];
  float least = INFINITY, largest = -INFINITY;
  for (const float value : values) {
    if (!std::isfinite(value)) continue;
    least = std::min(least, value);
    largest = std::max(largest, value);
  }
  const Sheet sheet = {std::min(c, kMostTiles), std::min(c, kColumns), h, w};
  return draw(sheet, [&](int64_t tile, int64_t, int64_t y, int64_t x) {
    return shade_of(values[static_cast<size_t>((tile * h + y) * w + x)], least, largest);
  });
}

}  // namespace duet
