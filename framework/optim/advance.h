// The end of a step: totals, step number and learning rate move on, on the device.
#pragma once

#include <stdexcept>

#include "core/step_state.h"
#include "device/context.h"
#include "optim/schedule_rule.h"

namespace duet {

/// What a step adds to one of the totals. All that it points to is in the context's memory, not
/// owned.
struct TotalPart {
  const float* mean = nullptr;     // {1}: of a loss
  const int32_t* hits = nullptr;   // {2}: rows that are right, rows that count
  const double* weight = nullptr;  // {1}: of the mean; null: the rows that count
  const float* sums =
      nullptr;  // {2}, instead of all that: of a metric, its sum over the rows that count, and these

  /// The mean by its weight; or, without one, the share of the hits in the rows that count.
  DUET_HOST_DEVICE void add_to(Total& total) const {
    if (sums) {
      total.sum += static_cast<double>(sums[0]);
      total.weight += static_cast<double>(sums[1]);
      return;
    }
    const double rows = static_cast<double>(hits[1]);
    const double by = weight ? *weight : rows;
    total.sum += mean ? static_cast<double>(*mean) * by : static_cast<double>(hits[0]);
    total.weight += mean ? by : rows;
  }
};

/// What moves a step's state on.
struct StepEnd {
  const float* loss = nullptr;  // {1}: the objective, in the context's memory, not owned
  ScheduleRule schedule = {};
  int count = 0;
  TotalPart parts[StepState::kMostTotals] = {};

  void add(const TotalPart& part) {
    if (count == StepState::kMostTotals) throw std::logic_error("more totals than StepState holds");
    parts[count++] = part;
  }
};

/// Adds the batch's parts to the totals of *state, in the context's memory, counts the step and
/// sets the learning rate of the next; if the loss is not finite, sets halted instead. Queued (GPU)
/// or done (CPU).
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
    for (int i = 0; i < end.count; ++i) end.parts[i].add_to(state.totals[i]);
    state.last_learning_rate = state.learning_rate;
    ++state.step;
  }
  state.learning_rate = static_cast<float>(static_cast<double>(end.schedule.rate(state.step)) *
                                           state.learning_rate_scale);
}

#if DUET_WITH_CUDA
void advance_gpu(Context& context, StepState* state, const StepEnd& end);
#endif

}  // namespace duet
