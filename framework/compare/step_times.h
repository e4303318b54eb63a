// How long whole steps take, of training and of inference, all arms side by side.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compare/arms.h"

namespace duet {

/// By arm.
struct StepTimes {
  int64_t batch = 0;
  std::vector<Times> training, inference;
  /// Of the first instance: with searches, and with what libraries do when they are first used.
  std::vector<double> prepare_seconds;
  /// Why an arm cannot run at this batch (out of memory, a batch larger than the training data, an
  /// implementation that refuses it), or empty. It has no times then.
  std::vector<std::string> errors;

  bool has(size_t arm) const { return errors[arm].empty(); }
  /// Of the arms that have times; nullptr for the others.
  std::vector<const Times*> pointers(const std::vector<Times>& times) const;
};

/// Training is a whole step; inference is a forward pass with dropout off. Both gather their batch.
///
/// Every round makes all arms anew (time_anew). On an H200 the step of fashion_mnist_cnn at batch
/// 64 takes 137 us by itself, and 140 to 145 us beside other arms, by instance.
class StepTimer {
 public:
  /// `arms` and `dataset` must outlive this.
  StepTimer(const std::vector<Arm>& arms, const Dataset& dataset, const TimingPlan& plan)
      : arms_(arms), dataset_(dataset), plan_(plan) {}

  /// Measured when it is first asked for. No arm may be in memory meanwhile that is not needed: all
  /// are once more.
  const StepTimes& at(int64_t batch);

 private:
  const std::vector<Arm>& arms_;
  const Dataset& dataset_;
  const TimingPlan plan_;
  std::map<int64_t, StepTimes> known_;  // by batch
};

}  // namespace duet
