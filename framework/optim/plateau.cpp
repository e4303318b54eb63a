#include "optim/plateau.h"

#include <algorithm>
#include <cmath>

namespace duet {
namespace {

bool is_better(const PlateauRule& rule, double value, const std::optional<double>& best,
               bool larger_is_better) {
  if (!best) return !std::isnan(value);
  const double by = rule.is_relative ? *best * rule.threshold : rule.threshold;
  return larger_is_better ? value > *best + by : value < *best - by;
}

}  // namespace

bool Plateau::watch(const PlateauRule& rule, double value, bool larger_is_better,
                    double learning_rate) {
  constexpr double kLeastFall = 1e-8;
  if (is_better(rule, value, best, larger_is_better)) {
    best = value;
    bad_epochs = 0;
  } else {
    ++bad_epochs;
  }
  if (cooldown_left > 0) {
    --cooldown_left;
    bad_epochs = 0;
  }
  if (bad_epochs <= rule.patience) return false;
  cooldown_left = rule.cooldown;
  bad_epochs = 0;
  const double before = learning_rate * scale;
  const double after = std::max(before * rule.factor, rule.least_rate);
  if (before - after <= kLeastFall) return false;
  scale = after / learning_rate;
  return true;
}

}  // namespace duet
