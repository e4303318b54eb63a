#include "optim/advance.h"

namespace duet {

void advance(Context& context, StepState* state, const StepEnd& end) {
#if DUET_WITH_CUDA
  if (context.device() == Device::kGpu) return advance_gpu(context, state, end);
#endif
  (void)context;
  advance_state(*state, end);
}

void set_learning_rate(Context& context, StepState* state, const ScheduleRule& schedule) {
  advance(context, state, {.schedule = schedule});
}

}  // namespace duet
