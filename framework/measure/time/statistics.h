// What a handful of times say about two arms: medians, the interval of their ratio, a verdict.
#pragma once

#include <string_view>
#include <vector>

namespace duet {

/// Quantile q in [0, 1], linear between order statistics. REQUIRES: values is not empty.
double quantile(std::vector<double> values, double q);

struct Summary {
  double median = 0, p20 = 0, p80 = 0;
};
Summary summarise(const std::vector<double>& values);

enum class Verdict { kFaster, kSlower, kSame, kUnclear };
/// "faster", "slower", "same", "unclear"
std::string_view to_string(Verdict verdict);

/// Arms whose speeds differ by less than this are called the same.
inline constexpr double kSameWithin = 0.02;

/// How many times as fast as b the arm a is, with the 95% interval of that.
struct Ratio {
  double speedup = 1, low = 0, high = 0;
  Verdict verdict = Verdict::kUnclear;
};

/// kSame: the interval lies within kSameWithin of 1. kFaster, kSlower: it lies wholly beyond half
/// of that on one side. Else kUnclear: more rounds are needed, or a calmer machine.
Verdict verdict_of(double low, double high);

/// Fewer rounds than this give no verdict but kUnclear.
inline constexpr size_t kLeastRounds = 7;

/// From times of the same rounds, a[i] beside b[i]: the median of b[i] / a[i] and an interval that
/// ends at two of these ratios, as in the sign test. Pairs, because what slows the machine for a
/// while slows both arms of a round. Nothing is assumed of the noise, which on a busy machine is
/// heavy-tailed and lasts for rounds, but that of two equal arms each is the faster one of a round
/// with a chance of 1/2; time_interleaved() sees to that. The interval holds the true median with
/// 95%, also for whoever looks after each of rounds 7 to 30 and stops as soon as it is narrow: it
/// is one of 98.4% at each look. REQUIRES: equal sizes, not empty, positive times.
Ratio speedup(const std::vector<double>& a, const std::vector<double>& b);

/// The same from times of separate runs, in which the machine may have been slower or faster: the ratio
/// of the medians, and its 95% interval (bootstrap). REQUIRES: neither is empty; positive times.
Ratio speedup_unpaired(const std::vector<double>& a, const std::vector<double>& b);

/// The 95% interval of the difference of the means of a and b, unpaired (bootstrap): for figures of
/// separate runs, such as accuracies by seed. REQUIRES: neither is empty.
struct Difference {
  double mean = 0, low = 0, high = 0;
};
Difference difference_of_means(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace duet
