#include "train/evaluate/heat_map.h"

#include <algorithm>
#include <cmath>

namespace duet {
namespace {

void scale(std::vector<double>* values) {
  const double least = *std::min_element(values->begin(), values->end());
  const double largest = *std::max_element(values->begin(), values->end()) - least;
  for (double& value : *values) value = (value - least) / (1e-7 + largest);
}

/// Between which two of `count` pixels pixel `to` of `of` lies, and how far behind the first.
struct Between {
  Between(int64_t to, int64_t of, int64_t count) {
    const double place =
        (static_cast<double>(to) + 0.5) * static_cast<double>(count) / static_cast<double>(of) -
        0.5;
    const double inside = std::clamp(place, 0.0, static_cast<double>(count - 1));
    first = static_cast<int64_t>(inside);
    second = std::min(first + 1, count - 1);
    share = inside - static_cast<double>(first);
  }
  double of(double at_first, double at_second) const {
    return at_first + (at_second - at_first) * share;
  }

  int64_t first, second;
  double share;
};

/// The colour map "jet", from dark blue over cyan, green and yellow to dark red: channel 0 is red.
double jet(double value, int64_t channel) {
  const auto centre = static_cast<double>(3 - channel);
  return std::clamp(1.5 - std::abs(4 * value - centre), 0.0, 1.0);
}

}  // namespace

HeatMap grad_cam(const FeatureMaps& features, const FeatureMaps& gradients) {
  const auto pixels = static_cast<size_t>(features.height * features.width);
  HeatMap map{features.height, features.width, std::vector<double>(pixels)};
  for (size_t start = 0; start < features.values.size(); start += pixels) {
    double alpha = 0.0;
    for (size_t i = 0; i < pixels; ++i) alpha += gradients.values[start + i];
    alpha /= static_cast<double>(pixels);
    for (size_t i = 0; i < pixels; ++i) map.values[i] += alpha * features.values[start + i];
  }
  for (double& value : map.values) value = std::max(value, 0.0);
  return map;
}

HeatMap fitted(const HeatMap& map, int64_t height, int64_t width) {
  std::vector<double> from = map.values;
  scale(&from);
  HeatMap to{height, width};
  for (int64_t y = 0; y < height; ++y) {
    const Between rows(y, height, map.height);
    const double* const above = from.data() + rows.first * map.width;
    const double* const below = from.data() + rows.second * map.width;
    for (int64_t x = 0; x < width; ++x) {
      const Between columns(x, width, map.width);
      to.values.push_back(rows.of(columns.of(above[columns.first], above[columns.second]),
                                  columns.of(below[columns.first], below[columns.second])));
    }
  }
  scale(&to.values);
  return to;
}

Image draw_over(const Image& picture, const HeatMap& map) {
  Image drawn = to_rgb(picture);
  for (size_t i = 0; i < drawn.pixels.size(); ++i) {
    const double heat = 255 * jet(map.values[i / 3], static_cast<int64_t>(i % 3));
    drawn.pixels[i] = static_cast<uint8_t>(std::lround((heat + drawn.pixels[i]) / 2));
  }
  return drawn;
}

}  // namespace duet
