// What changes from step to step, kept in the memory of the device that trains, so that a captured
// step can read and advance it.
#pragma once

#include <cstdint>

namespace duet {

/// A weighted mean over many steps. Each step adds its value times its weight to `sum`.
struct Total {
  double sum = 0.0, weight = 0.0;

  /// 0 where nothing was added.
  double mean() const { return weight > 0.0 ? sum / weight : 0.0; }
};

struct StepState {
  static constexpr int kMostTotals = 24;

  uint64_t step = 0;           // steps done since the run began; Run::step points here
  float learning_rate = 0.0f;  // of the step to come
  int32_t halted = 0;          // 1: the loss of this step was not finite; nothing advances any more
  float last_loss = 0.0f;      // the objective of the last step
  float last_learning_rate = 0.0f;   // of the last step
  double learning_rate_scale = 1.0;  // what optim/plateau.h has left of the schedule's rates
  Total totals[kMostTotals];  // since they were last cleared; of what each is: StepEnd::parts
};

}  // namespace duet
