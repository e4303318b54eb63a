// What a training or an evaluation says of a network: means over the samples, by name.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
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
  struct Value {
    std::string name;
    double value;
    bool is_share = false;  // from 0 to 1, told as a percentage
  };
  using Values = std::vector<Value>;

  double loss = 0.0;        // the objective
  double accuracy = kNone;  // kNone if the last loss takes no labels
  int64_t rows = 0;
  /// Of several losses: each by the name of its layer, and "<layer>_accuracy" of those that take
  /// labels. And each metric by the name of its layer.
  Values parts = {};
  // Of an evaluation:
  double top5 =
      kNone;  // share of rows whose label is among the five largest outputs; kNone of no more than 5
  std::vector<ClassMetrics> classes = {};
  // Rows of class i predicted to be of class j at i * classes + j; empty of more than
  // ClassCounts::kMostPaired classes.
  std::vector<int64_t> confusion = {};

  /// All that there are: "loss", "accuracy", "top5" and `parts`, with `prefix` before each name.
  Values values(const std::string& prefix = "") const;
};

/// "loss 0.4312 accuracy 85.12% aux 0.7000"
std::string values_text(const Metrics& metrics, const std::string& separator = " ");

/// What `train.best` and its likes can name.
struct MetricInfo {
  std::string name;               // "val_loss", "train_accuracy", "val_<layer>"
  bool larger_is_better = false;  // not so of losses
  bool is_share = false;          // Metrics::Value::is_share

  /// "val_loss 0.4312", "val_accuracy 85.12%"
  std::string text(double value) const;
};
/// Those of a network.
std::vector<MetricInfo> metrics_of(const std::vector<ResolvedLayer>& layers);
/// nullptr if there is none of that name.
const MetricInfo* find_metric(const std::vector<MetricInfo>& metrics, const std::string& name);

}  // namespace duet
