// What each step of a training or an evaluation leaves in the totals of its state, and what these
// say in the end.
#pragma once

#include <deque>

#include "net/net.h"
#include "optim/advance.h"
#include "train/evaluate/metrics.h"
#include "train/step/loss_weight.h"

namespace duet {

class StepTotals {
 public:
  /// `net` has its losses and outlives this.
  explicit StepTotals(Net& net);

  /// Queues, of what forward has left, what a loss with class weights weighs in the mean over
  /// several batches; end() points to it.
  void queue();
  StepEnd end(const ScheduleRule& schedule = {}) const;
  /// Totals of a state that are in use.
  int count() const { return end().count; }
  /// A loss of nan where the state has halted.
  Metrics metrics(const StepState& state) const;
  size_t memory_bytes() const;

 private:
  Net& net_;
  std::deque<LossWeight> weights_;  // of each loss
};

}  // namespace duet
