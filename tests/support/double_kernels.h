// Kernels of the test doubles on a GPU, in a build with CUDA.
#pragma once

#include "device/context.h"

namespace duet {

/// Counts its calls in *calls and changes the first word of `out` in every thousandth.
void queue_rare_fault(Context& context, uint64_t* calls, void* out);
/// *value = fmaxf(*value, *other).
void queue_larger(Context& context, float* value, const float* other);
/// Whether what is queued becomes part of a graph.
bool is_capturing(Context& context);
/// Takes 200 us unless a few values of `x` are those that *kept holds from the call before.
/// REQUIRES: `kept` has 16 bytes.
void queue_delay_if_changed(Context& context, const Tensor& x, void* kept);

}  // namespace duet
