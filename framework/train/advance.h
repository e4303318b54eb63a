// The end of a step: totals and step number move on, on the device.
#pragma once

#include "core/step_state.h"
#include "device/context.h"

namespace duet {

/// Adds the batch's loss and hits to *state and counts the step; if the loss is not finite, sets
/// halted instead. `state`, `loss` (float {1}) and `hits` (int32 {2}: right, counted) are in the
/// context's memory. Queued (GPU) or done (CPU).
void advance(Context& context, StepState* state, const float* loss, const int32_t* hits);

/// What advance() does; shared by both devices.
inline
#ifdef __CUDACC__
    __host__ __device__
#endif
    void
    advance_state(StepState& state, float loss, int32_t right, int32_t counted) {
  state.last_loss = loss;
  if (!(loss - loss == 0.0f)) {  // NaN or infinite
    state.halted = 1;
    return;
  }
  state.halted = 0;
  state.loss_sum += static_cast<double>(loss) * counted;
  state.hits += right;
  state.counted += counted;
  ++state.step;
}

#if DUET_WITH_CUDA
void advance_gpu(Context& context, StepState* state, const float* loss, const int32_t* hits);
#endif

}  // namespace duet
