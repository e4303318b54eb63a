// What is wanted of a training, and when it was reached.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>

#include "net/spec.h"
#include "train/evaluate/metrics.h"

namespace duet {

class Goal {
 public:
  /// `metric` is of what is wanted, if anything is.
  Goal(const std::optional<TrainSpec::Goal>& wanted, const MetricInfo* metric)
      : wanted_(wanted), larger_(metric && metric->larger_is_better) {}

  /// Takes the epochs' lines of metrics.jsonl, one after the other. True of the first that reaches
  /// the goal.
  bool watch(const nlohmann::json& epoch);
  /// Until the end of that epoch: of all epochs so far, with their evaluations. NaN if the time of
  /// one is not known: of those before a run that goes on with another's, or that was interrupted.
  double seconds() const { return seconds_; }

  /// {"val_accuracy", "epoch", "seconds"}, the latter null where they are not known; with "metric"
  /// and "value" in the place of the first for another metric; null without a goal.
  nlohmann::json to_json() const;

 private:
  std::optional<TrainSpec::Goal> wanted_;
  bool larger_;          // is better
  double done_ = 0.0;    // seconds of the epochs so far
  int64_t watched_ = 0;  // the last epoch
  int64_t epoch_ = 0;    // 0: not reached
  double seconds_ = 0.0;
};

}  // namespace duet
