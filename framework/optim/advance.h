// The end of a step: totals, step number and learning rate move on, on the device.
#pragma once

#include "core/step_state.h"
#include "device/context.h"
#include "optim/schedule_rule.h"

namespace duet {

/// What moves a step's state on. Loss, hits and weight are in the context's memory, not owned.
struct StepEnd {
  const float* loss = nullptr;    // {1}
  const int32_t* hits = nullptr;  // {2}: right, counted
  ScheduleRule schedule = {};
  const double* weight = nullptr;  // {1}: of the loss in the mean over steps; null: rows counted
};

/// Adds the batch's loss and hits to *state, in the context's memory, counts the step and sets the
/// learning rate of the next; if the loss is not finite, sets halted instead. Queued (GPU) or done (CPU).
void advance(Context& context, StepState* state, const StepEnd& end);
/// Sets the learning rate alone, of the step to come, to the bits that advance() comes to.
void set_learning_rate(Context& context, StepState* state, const ScheduleRule& schedule);

/// Of a step whose loss is NaN or infinite, and of all behind it, nothing is updated.
DUET_HOST_DEVICE inline bool updates(const StepState& state, float loss) {
  return !state.halted && loss - loss == 0.0f;
}

/// What both do, on both devices; without a loss the latter.
DUET_HOST_DEVICE inline void advance_state(StepState& state, const StepEnd& end) {
  if (end.loss) {
    const float loss = *end.loss;
    state.last_loss = loss;
    if (!updates(state, loss)) {
      state.halted = 1;
      return;
    }
    const int32_t right = end.hits[0], counted = end.hits[1];
    const double weight = end.weight ? *end.weight : static_cast<double>(counted);
    state.loss_sum += static_cast<double>(loss) * weight;
    state.weight_sum += weight;
    state.hits += right;
    state.counted += counted;
    state.last_learning_rate = state.learning_rate;
    ++state.step;
  }
  state.learning_rate = end.schedule.rate(state.step);
}

#if DUET_WITH_CUDA
void advance_gpu(Context& context, StepState* state, const StepEnd& end);
#endif

}  // namespace duet
