#include "core/image_quality.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
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

// The weights of a window along one side, which sum to 1; those of the window are their products.
std::vector<double> weights_of(SsimWindow window) {
  if (window == SsimWindow::kUniform7) return std::vector<double>(7, 1.0 / 7.0);
  constexpr int kRadius = 5;
  constexpr double kSigma = 1.5;
  std::vector<double> weights;
  for (int i = -kRadius; i <= kRadius; ++i)
    weights.push_back(std::exp(-i * i / (2 * kSigma * kSigma)));
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= sum;
  return weights;
}

// Weighted means of both images' values, their squares and their products.
struct Moments {
  double x = 0, y = 0, xx = 0, yy = 0, xy = 0;
};

class Ssim {
 public:
  Ssim(double data_range, const SsimOptions& options)
      : weights_(weights_of(options.window)),
        c1_(0.01 * data_range * 0.01 * data_range),
        c2_(0.03 * data_range * 0.03 * data_range) {
    const auto pixels = static_cast<double>(weights_.size() * weights_.size());
    if (options.sample_covariance) correction_ = pixels / (pixels - 1);
  }

  int64_t window() const { return static_cast<int64_t>(weights_.size()); }

  double mean(const PlanePair& plane) const {
    const int64_t rows = plane.height - window() + 1, columns = plane.width - window() + 1;
    double sum = 0;
    std::vector<Moments> by_column(static_cast<size_t>(plane.width));
    for (int64_t row = 0; row < rows; ++row) {
      average_columns(plane, row, by_column);
      double row_sum = 0;
      for (int64_t column = 0; column < columns; ++column) {
        row_sum += similarity(average_row(by_column.data() + column));
      }
      sum += row_sum;
    }
    return sum / static_cast<double>(rows * columns);
  }

 private:
  // Each column's means over the rows of the windows whose first is `row`.
  void average_columns(const PlanePair& plane, int64_t row, std::vector<Moments>& means) const {
    std::fill(means.begin(), means.end(), Moments{});
    for (size_t k = 0; k < weights_.size(); ++k) {
      const int64_t offset = (row + static_cast<int64_t>(k)) * plane.stride;
      for (size_t i = 0; i < means.size(); ++i) {
        const double x = plane.x[offset + static_cast<int64_t>(i)];
        const double y = plane.y[offset + static_cast<int64_t>(i)];
        means[i].x += weights_[k] * x;
        means[i].y += weights_[k] * y;
        means[i].xx += weights_[k] * (x * x);
        means[i].yy += weights_[k] * (y * y);
        means[i].xy += weights_[k] * (x * y);
      }
    }
  }

  Moments average_row(const Moments* columns) const {
    Moments mean;
    for (size_t k = 0; k < weights_.size(); ++k) {
      mean.x += weights_[k] * columns[k].x;
      mean.y += weights_[k] * columns[k].y;
      mean.xx += weights_[k] * columns[k].xx;
      mean.yy += weights_[k] * columns[k].yy;
      mean.xy += weights_[k] * columns[k].xy;
    }
    return mean;
  }

  double similarity(const Moments& m) const {
    const double variance_x = correction_ * (m.xx - m.x * m.x);
    const double variance_y = correction_ * (m.yy - m.y * m.y);
    const double covariance = correction_ * (m.xy - m.x * m.y);
    return (2 * (m.x * m.y) + c1_) * (2 * covariance + c2_) /
           ((m.x * m.x + m.y * m.y + c1_) * (variance_x + variance_y + c2_));
  }

  std::vector<double> weights_;
  double c1_, c2_;
  double correction_ = 1;
};

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
  const Ssim measure(data_range, options);
  double sum = 0;
  const std::vector<PlanePair> planes =
      planes_of(x, y, data_range, options.border, measure.window());
  for (const PlanePair& plane : planes) sum += measure.mean(plane);
  return sum / static_cast<double>(planes.size());
}

}  // namespace duet
