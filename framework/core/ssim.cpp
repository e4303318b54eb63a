#include "core/ssim.h"

#include <cmath>

namespace duet {

SsimFormula::SsimFormula(double data_range, SsimWindow window, bool sample_covariance)
    : taps(window == SsimWindow::kUniform7 ? 7 : 11),
      c1(0.01 * data_range * 0.01 * data_range),
      c2(0.03 * data_range * 0.03 * data_range) {
  constexpr double kSigma = 1.5;
  double sum = 0;
  for (int i = 0; i < taps; ++i) {
    const int from_centre = i - taps / 2;
    weights[i] = window == SsimWindow::kUniform7
                     ? 1.0
                     : std::exp(-from_centre * from_centre / (2 * kSigma * kSigma));
    sum += weights[i];
  }
  for (double& weight : weights) weight /= sum;
  const double pixels = static_cast<double>(taps) * taps;
  if (sample_covariance) correction = pixels / (pixels - 1);
}

}  // namespace duet
