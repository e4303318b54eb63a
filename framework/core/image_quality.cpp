#include "core/image_quality.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/error.h"

namespace duet {
namespace {

std::string text_of(const ImageValues& image) {
  return std::to_string(image.width) + "x" + std::to_string(image.height) + " pixels of " +
         std::to_string(image.channels) + " channels";
}

// One channel of both images, its border cut off. Rows are `stride` values apart.
struct PlanePair {
  const double* x;
  const double* y;
  int64_t height, width, stride;
};

// The channels. `least` is the shortest side that can be measured.
std::vector<PlanePair> planes_of(const ImageValues& x, const ImageValues& y, double data_range,
                                 int64_t border, int64_t least) {
  if (!(data_range > 0.0) || !std::isfinite(data_range)) {
    throw ConfigError(
        "data_range: expected a positive number, the distance between the smallest "
        "and the largest possible value, such as 255 for bytes");
  }
  if (border < 0) {
    throw ConfigError("border: expected how many pixels to cut off each side, not " +
                      std::to_string(border));
  }
  if (x.channels != y.channels || x.height != y.height || x.width != y.width) {
    throw DataError("only images of one size can be compared; these have " + text_of(x) + " and " +
                    text_of(y) + " (width x height)");
  }
  // A border so large that twice its size is no longer an int64_t leaves nothing, either.
  const int64_t cut = border > x.height || border > x.width ? border : 2 * border;
  if (x.channels < 1 || x.height - cut < least || x.width - cut < least) {
    throw DataError("the images have " + text_of(x) + " (width x height)" +
                    (border > 0
                         ? ", of which " + std::to_string(border) + " pixels are cut off each side"
                         : "") +
                    "; at least " + std::to_string(least) + "x" + std::to_string(least) +
                    " pixels have to remain");
  }
  std::vector<PlanePair> planes;
  for (int64_t c = 0; c < x.channels; ++c) {
    const int64_t first = (c * x.height + border) * x.width + border;
    planes.push_back(
        {x.values.data() + first, y.values.data() + first, x.height - cut, x.width - cut, x.width});
  }
  return planes;
}

}  // namespace

double psnr(const ImageValues& x, const ImageValues& y, double data_range, int64_t border) {
  double sum = 0, count = 0;
  for (const PlanePair& plane : planes_of(x, y, data_range, border, 1)) {
    for (int64_t i = 0; i < plane.height; ++i) {
      double row_sum = 0;
      for (int64_t j = 0; j < plane.width; ++j) {
        const double difference = plane.x[i * plane.stride + j] - plane.y[i * plane.stride + j];
        row_sum += difference * difference;
      }
      sum += row_sum;
    }
    count += static_cast<double>(plane.height * plane.width);
  }
  if (sum == 0.0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(data_range * data_range / (sum / count));
}

double ssim(const ImageValues& x, const ImageValues& y, double data_range,
            const SsimOptions& options) {
  const SsimFormula formula(data_range, options.window, options.sample_covariance);
  const std::vector<PlanePair> planes = planes_of(x, y, data_range, options.border, formula.taps);
  double sum = 0;
  for (const PlanePair& plane : planes) {
    std::vector<SsimMoments> columns(static_cast<size_t>(plane.width));
    const auto of = [&](const double* values) {
      return [&plane, values](int64_t row, int64_t column) {
        return values[row * plane.stride + column];
      };
    };
    const int64_t windows = (plane.height - formula.taps + 1) * (plane.width - formula.taps + 1);
    sum += ssim_sum(formula, plane.height, plane.width, of(plane.x), of(plane.y), columns.data()) /
           static_cast<double>(windows);
  }
  return sum / static_cast<double>(planes.size());
}

}  // namespace duet
