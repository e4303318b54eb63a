#include "measure/time/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <tuple>

namespace duet {
namespace {

// On each side, after each round. In one of 7 to 30 looks an arm that is like the other is found
// faster or slower with a chance of 5.0% then; it wins or loses all of 7 rounds with 1.6%.
constexpr double kTailOfALook = 0.0081;
constexpr int kResamples = 2000;
constexpr double kTail = 0.025;  // on each side

// The percentile interval of `statistic` over resamples drawn by `draw`.
template <class Draw>
std::pair<double, double> bootstrap(const Draw& draw) {
  std::mt19937 random(20240607);
  std::vector<double> results(kResamples);
  for (double& result : results) result = draw(random);
  std::sort(results.begin(), results.end());
  const auto at = [&](double q) {
    return results[static_cast<size_t>(std::lround(q * (kResamples - 1)))];
  };
  return {at(kTail), at(1 - kTail)};
}

// The largest rank r, counted from 1, for which the median lies below the r-th smallest of `count`
// values with a chance of at most kTailOfALook; 0 if there is none. Each value lies below the
// median with a chance of 1/2.
size_t rank_of_low(size_t count) {
  double chance = std::exp2(-static_cast<double>(count));  // that exactly k values lie below it
  double sum = 0;
  for (size_t k = 0; k < count; ++k) {
    sum += chance;
    if (sum > kTailOfALook) return k;
    chance *= static_cast<double>(count - k) / static_cast<double>(k + 1);
  }
  return 0;
}

double pick(const std::vector<double>& values, std::mt19937& random) {
  return values[random() % values.size()];
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double position = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, values.size() - 1);
  const double part = position - static_cast<double>(below);
  return std::lerp(values[below], values[above], part);  // never beyond them, nor falling with q
}

Summary summarise(const std::vector<double>& values) {
  return {quantile(values, 0.5), quantile(values, 0.2), quantile(values, 0.8)};
}

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kFaster:
      return "faster";
    case Verdict::kSlower:
      return "slower";
    case Verdict::kSame:
      return "same";
    case Verdict::kUnclear:
      return "unclear";
  }
  return "?";
}

Verdict verdict_of(double low, double high) {
  if (low >= 1 - kSameWithin && high <= 1 + kSameWithin) return Verdict::kSame;
  if (low > 1 + kSameWithin / 2) return Verdict::kFaster;
  if (high < 1 - kSameWithin / 2) return Verdict::kSlower;
  return Verdict::kUnclear;
}

Ratio speedup(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> ratios(a.size());
  for (size_t i = 0; i < a.size(); ++i) ratios[i] = b[i] / a[i];
  std::sort(ratios.begin(), ratios.end());
  const size_t rank = std::max<size_t>(rank_of_low(ratios.size()), 1);
  Ratio result{.speedup = quantile(ratios, 0.5),
               .low = ratios[rank - 1],
               .high = ratios[ratios.size() - rank]};
  if (ratios.size() >= kLeastRounds) result.verdict = verdict_of(result.low, result.high);
  return result;
}

Ratio speedup_unpaired(const std::vector<double>& a, const std::vector<double>& b) {
  Ratio result{.speedup = quantile(b, 0.5) / quantile(a, 0.5)};
  const auto resampled_median = [](const std::vector<double>& values, std::mt19937& random) {
    std::vector<double> drawn(values.size());
    for (double& each : drawn) each = pick(values, random);
    return quantile(std::move(drawn), 0.5);
  };
  std::tie(result.low, result.high) = bootstrap([&](std::mt19937& random) {
    const double time = resampled_median(a, random);
    return resampled_median(b, random) / time;
  });
  if (std::min(a.size(), b.size()) >= kLeastRounds) {
    result.verdict = verdict_of(result.low, result.high);
  }
  return result;
}

Difference difference_of_means(const std::vector<double>& a, const std::vector<double>& b) {
  Difference result{.mean = mean(a) - mean(b)};
  std::tie(result.low, result.high) = bootstrap([&](std::mt19937& random) {
    double sums[2] = {};
    for (size_t i = 0; i < a.size(); ++i) sums[0] += pick(a, random);
    for (size_t i = 0; i < b.size(); ++i) sums[1] += pick(b, random);
    return sums[0] / static_cast<double>(a.size()) - sums[1] / static_cast<double>(b.size());
  });
  return result;
}

}  // namespace duet
