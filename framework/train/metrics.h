// What a training or an evaluation says of a network: means over the samples, by name.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "net/resolve.h"

namespace duet {

/// Of the rows that count.
struct ClassMetrics {
  int64_t rows = 0;  // of the class
  int64_t predicted = 0, right = 0;

  /// Shares of the rows predicted to be of the class, and of those that are; nan without any.
  double precision() const;
  double recall() const;
};

/// Means over the rows counted; that of a loss by their weights, if it has class weights.
struct Metrics {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  using Values = std::vector<std::pair<std::string, double>>;

  double loss = 0.0;        // the objective
  double accuracy = kNone;  // kNone without labels; of several losses the last that takes labels
  int64_t rows = 0;
  /// Of several losses: each by the name of its layer, and "<layer>_accuracy" of those that take labels.
  Values parts = {};
  // Of an evaluation:
  double top5 =
      kNone;  // share of rows whose label is among the five largest outputs; kNone of no more than 5
  std::vector<ClassMetrics> classes = {};
  // Rows of class i predicted to be of class j at i * classes + j; empty of more than
  // ClassCounts::kMostPaired classes.
  std::vector<int64_t> confusion = {};

  /// All that there are: "loss", "accuracy", "top5" and `parts`, with `prefix` before each name.
  Values values(const std::string& prefix) const;
};

/// The names that `train.best` and its likes know of a network: "val_loss", "train_accuracy", ....
std::vector<std::string> metric_names(const std::vector<ResolvedLayer>& layers);
/// Of two values the larger is the better one; of losses the smaller. `name` is one of metric_names().
bool larger_is_better(const std::string& name);

}  // namespace duet
