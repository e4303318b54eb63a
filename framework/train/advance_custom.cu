// advance: one thread moves the step state on, so that no step needs the host.
// Mapping:  one block of one thread.
// Traffic:  some 60 bytes.
// Limits:   none.
#include "device/check.h"
#include "device/launch.h"
#include "train/advance.h"

namespace duet {
namespace {

__global__ void advance_kernel(StepState* state, const float* loss, const int32_t* hits,
                               ScheduleRule schedule) {
  wait_for_primary();
  advance_state(*state, loss, hits, schedule);
}

}  // namespace

void advance_gpu(Context& context, StepState* state, const float* loss, const int32_t* hits,
                 const ScheduleRule& schedule) {
  launch_following({1, 1, 0, context.stream()}, advance_kernel, state, loss, hits, schedule);
}

}  // namespace duet
