// advance: one thread moves the step state on, so that no step needs the host. An update that is one
// kernel does so itself (update_custom.cu).
// Mapping:  one block of one thread.
// Traffic:  some 60 bytes.
// Limits:   none.
#include "device/check.h"
#include "device/launch.h"
#include "optim/advance.h"

namespace duet {
namespace {

__global__ void advance_kernel(StepState* state, const __grid_constant__ StepEnd end) {
  wait_for_primary();
  advance_state(*state, end);
}

}  // namespace

void advance_gpu(Context& context, StepState* state, const StepEnd& end) {
  launch_following({1, 1, 0, context.stream()}, advance_kernel, state, end);
}

}  // namespace duet
