// Grad-CAM: where in a picture a network sees a class (R. Selvaraju et al.: Grad-CAM, 2017), and
// how that is drawn. PyPI's grad-cam 1.5.7 gives the same map.
#pragma once

#include <cstdint>
#include <vector>

#include "data/format/image.h"

namespace duet {

struct HeatMap {
  int64_t height = 0, width = 0;
  std::vector<double> values = {};  // row-major
};

/// What a layer makes of one image, or the gradient of that: C x H x W, row-major.
struct FeatureMaps {
  int64_t channels = 0, height = 0, width = 0;
  std::vector<double> values = {};
};

/// relu(sum over k of alpha_k * A_k) with alpha_k, the mean over the pixels of `gradients`' map k,
/// and A_k, map k of `features`. REQUIRES: both have one size, of a pixel at least.
HeatMap grad_cam(const FeatureMaps& features, const FeatureMaps& gradients);

/// `map` between 0 and 1 in that size: scaled, bilinear between the centres of pixels, and scaled
/// once more; to scale is to subtract the least value and to divide by the largest + 1e-7. A map of
/// equal values becomes 0. REQUIRES: sizes of a pixel at least.
HeatMap fitted(const HeatMap& map, int64_t height, int64_t width);

/// `picture` in colours with the map over it, half of each: blue is 0, red 1. REQUIRES: one size.
Image draw_over(const Image& picture, const HeatMap& map);

}  // namespace duet
