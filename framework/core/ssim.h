// Structural similarity of two images by windows, for any storage of their values and on any device.
// core/image_quality.h says what it is equal to.
#pragma once

#include <cstdint>

#include "core/host_device.h"

namespace duet {

enum class SsimWindow {
  kGaussian11,  // 11 x 11 pixels, sigma 1.5: Wang et al.
  kUniform7,    // 7 x 7 equal weights: scikit-image's default
};

/// Weighted means of two images' values, of the sum of their squares, and of their product.
struct SsimMoments {
  double x = 0, y = 0, squares = 0, product = 0;

  DUET_HOST_DEVICE void add(double weight, double of_x, double of_y) {
    x += weight * of_x;
    y += weight * of_y;
    squares += weight * (of_x * of_x + of_y * of_y);
    product += weight * (of_x * of_y);
  }
  DUET_HOST_DEVICE void add(double weight, const SsimMoments& other) {
    x += weight * other.x;
    y += weight * other.y;
    squares += weight * other.squares;
    product += weight * other.product;
  }
};

/// The measure: a window's weights are products of those of its rows and columns, which sum to 1.
struct SsimFormula {
  static constexpr int kMostTaps = 11;

  int taps = 0;  // rows, and columns, of a window
  double weights[kMostTaps] = {};
  double c1 = 0, c2 = 0;
  double correction = 1;  // of variances and the covariance

  /// `sample_covariance`: SsimOptions.
  SsimFormula(double data_range, SsimWindow window, bool sample_covariance);

  /// The index of a window with these moments.
  DUET_HOST_DEVICE double similarity(const SsimMoments& m) const {
    const double variances = correction * (m.squares - (m.x * m.x + m.y * m.y));
    const double covariance = correction * (m.product - m.x * m.y);
    return (2 * (m.x * m.y) + c1) * (2 * covariance + c2) /
           ((m.x * m.x + m.y * m.y + c1) * (variances + c2));
  }
};

/// The sum of the similarities of all windows inside a plane of height x width values x(row, column)
/// and y(row, column): (height - taps + 1) * (width - taps + 1) of them. `columns` is memory for
/// `width` moments.
template <class X, class Y>
double ssim_sum(const SsimFormula& formula, int64_t height, int64_t width, const X& x, const Y& y,
                SsimMoments* columns) {
  double sum = 0;
  for (int64_t row = 0; row + formula.taps <= height; ++row) {
    for (int64_t i = 0; i < width; ++i) {
      columns[i] = {};
      for (int k = 0; k < formula.taps; ++k) {
        columns[i].add(formula.weights[k], x(row + k, i), y(row + k, i));
      }
    }
    double of_row = 0;
    for (int64_t first = 0; first + formula.taps <= width; ++first) {
      SsimMoments window;
      for (int k = 0; k < formula.taps; ++k) window.add(formula.weights[k], columns[first + k]);
      of_row += formula.similarity(window);
    }
    sum += of_row;
  }
  return sum;
}

}  // namespace duet
