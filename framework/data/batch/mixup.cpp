#include "data/batch/mixup.h"

#include <cmath>
#include <cstddef>

#include "core/mixed_labels.h"

namespace duet {

// With x = 1 / (1 + exp(-z)), the density of z is (x * (1 - x))^alpha but for a factor: smooth, even,
// and beyond the last z less than e^-40 of what it is at 0. A small alpha has a last z in the
// thousands, whose x * (1 - x) no double holds: so it is the logarithm that is multiplied by alpha.
std::vector<uint32_t> mixup_shares(double alpha) {
  constexpr size_t kCount = size_t{1} << kMixupBits, kPoints = size_t{1} << 16;
  const double step = (40.0 / alpha + 1.4) / kPoints;
  const auto density = [&](double z) {
    return std::exp(-alpha * (z + 2.0 * std::log1p(std::exp(-z)) - 2.0 * std::log(2.0)));
  };
  std::vector<double> sums = {0.0};  // up to each point, by the trapezoidal rule
  for (size_t i = 0; i < kPoints; ++i) {
    const double z = step * static_cast<double>(i);
    sums.push_back(sums.back() + 0.5 * (density(z) + density(z + step)));
  }
  std::vector<uint32_t> shares(kCount);
  size_t at = 0;
  for (size_t i = 0; i < kCount / 2; ++i) {
    const double wanted =
        (static_cast<double>(i) + 0.5) / static_cast<double>(kCount / 2) * sums.back();
    while (sums[at + 1] < wanted) ++at;
    const double part = (wanted - sums[at]) / (sums[at + 1] - sums[at]);
    const double x = 1.0 / (1.0 + std::exp(-step * (static_cast<double>(at) + part)));
    const auto share = static_cast<uint32_t>(std::lround(x * kWholeShare));
    shares[kCount / 2 + i] = share;
    shares[kCount / 2 - 1 - i] = kWholeShare - share;
  }
  return shares;
}

}  // namespace duet
