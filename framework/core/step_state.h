// What changes from step to step, kept in the memory of the device that trains, so that a captured
// step can read and advance it.
#pragma once

#include <cstdint>

namespace duet {

struct StepState {
  uint64_t step = 0;           // steps done since the run began; Run::step points here
  float learning_rate = 0.0f;  // of the step to come
  int32_t halted = 0;          // 1: the loss of this step was not finite; nothing advances any more
  // Since the totals were last cleared:
  double loss_sum = 0.0;    // mean loss times its weight, summed over steps
  double weight_sum = 0.0;  // of those weights: rows counted, or the weights of their classes
  int64_t hits = 0;         // rows predicted right
  int64_t counted = 0;      // rows that counted
  float last_loss = 0.0f;   // mean loss of the last step
  float last_learning_rate = 0.0f;  // of the last step
};

}  // namespace duet
