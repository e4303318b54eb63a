#include "train/filters.h"

#include <algorithm>
#include <cmath>

namespace duet {
namespace {

constexpr int64_t kColumns = 16, kGap = 1;
constexpr int64_t kTileSide = 30;  // pixels that a tile has at least

// White is the largest absolute weight, black its negative; what is not finite is black.
uint8_t shade(float weight, float largest) {
  if (!std::isfinite(weight)) return 0;
  const float share = largest > 0 ? weight / largest : 0.0f;
  return static_cast<uint8_t>(std::lround(127.5f + 127.5f * share));
}

}  // namespace

Image filter_picture(const std::vector<float>& weights, const std::vector<int64_t>& shape) {
  const int64_t k = shape[0], c = shape[1], r = shape[2], s = shape[3];
  const bool colour = c == 3;
  const int64_t planes = colour || c == 1 ? 1 : c;  // tiles of a filter
  const int64_t columns = std::min(planes == 1 ? std::min(k, kColumns) : planes, kMostTiles);
  const int64_t tiles = std::min(planes == 1 ? k : k * columns, kMostTiles / columns * columns);
  const int64_t rows = (tiles + columns - 1) / columns;
  const int64_t scale = std::max<int64_t>(1, (kTileSide + std::min(r, s) - 1) / std::min(r, s));
  Image image;
  image.channels = colour ? 3 : 1;
  image.height = rows * (r * scale + kGap) + kGap;
  image.width = columns * (s * scale + kGap) + kGap;
  image.pixels.assign(static_cast<size_t>(image.height * image.width * image.channels), 255);
  float largest = 0;
  for (const float weight : weights) {
    if (std::isfinite(weight)) largest = std::max(largest, std::fabs(weight));
  }
  for (int64_t tile = 0; tile < tiles; ++tile) {
    const int64_t filter = planes == 1 ? tile : tile / columns;
    const int64_t plane = planes == 1 ? 0 : tile % columns;
    const int64_t top = kGap + tile / columns * (r * scale + kGap);
    const int64_t left = kGap + tile % columns * (s * scale + kGap);
    for (int64_t y = 0; y < r * scale; ++y) {
      for (int64_t x = 0; x < s * scale; ++x) {
        for (int64_t channel = 0; channel < image.channels; ++channel) {
          const int64_t from = ((filter * c + plane + channel) * r + y / scale) * s + x / scale;
          const int64_t to = ((top + y) * image.width + left + x) * image.channels + channel;
          image.pixels[static_cast<size_t>(to)] =
              shade(weights[static_cast<size_t>(from)], largest);
        }
      }
    }
  }
  return image;
}

}  // namespace duet
