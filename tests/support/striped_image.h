// Images of known values, as tests/scikit_image/make_image_quality.py makes them.
#pragma once

#include <cstdint>
#include <vector>

namespace duet {

/// Stripes with noise from 0 to data_range, channel after channel; images of another `start` have
/// other noise.
inline std::vector<double> striped_image(int64_t channels, int64_t height, int64_t width,
                                         double data_range, uint64_t start) {
  std::vector<double> values;
  uint64_t i = start;
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t y = 0; y < height; ++y) {
      for (int64_t x = 0; x < width; ++x, ++i) {
        const uint64_t noise = ((i * 2654435761u + i * i * 40503u) >> 11) & 255;
        const auto value = (5 * y + 9 * x + 40 * c) % 192 + static_cast<int64_t>(noise / 4);
        values.push_back(static_cast<double>(value) * (data_range / 255));
      }
    }
  }
  return values;
}

}  // namespace duet
