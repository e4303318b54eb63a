// The objective: one thread adds a few numbers up.
// Mapping:  one block of one thread.
// Traffic:  4 bytes a loss.
// Limits:   WeightedLosses::kMost.
#include "device/check.h"
#include "device/launch.h"
#include "layers/objective.h"

namespace duet {
namespace {

__global__ void add_losses_kernel(const __grid_constant__ WeightedLosses terms, float* objective) {
  wait_for_primary();
  *objective = terms.sum();
}

}  // namespace

void add_losses_gpu(Context& context, const WeightedLosses& terms, float* objective) {
  launch_following({1, 1, 0, context.stream()}, add_losses_kernel, terms, objective);
}

}  // namespace duet
