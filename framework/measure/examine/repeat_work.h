// What repeated calls queue beside the calls: inputs written anew, and outputs compared where they
// lie. Nothing here waits or reads back, and all of it can be captured in a graph. All memory is on
// the context's device. Two files implement it: repeat_work.cu in a build with CUDA,
// repeat_work_none.cpp in one without.
#pragma once

#include "device/context.h"

namespace duet {

/// Writes variant `*number` of `from` to `to`. Variant 0 is `from`; every other one has its
/// elements rotated and, if they are not whole numbers, multiplied by a factor between 0.75 and
/// 1.25, so that its scale stays and any sum over it changes. REQUIRES: as many values in `from`.
void queue_variant(Context& context, const Tensor& to, const void* from, const uint64_t* number);

/// *to = from + *number.
void queue_step(Context& context, uint64_t* to, uint64_t from, const uint64_t* number);

/// *number += by.
inline void queue_advance(Context& context, uint64_t* number, uint64_t by) {
  queue_step(context, number, by, number);
}

/// Adds to *count the number of 4-byte words in which `a` and `b` differ; the last may be shorter.
void queue_count_differences(Context& context, const void* a, const void* b, size_t bytes,
                             uint64_t* count);

/// Fills the shared memory of the GPU's multiprocessors with NaN; nothing on the CPU.
void queue_fill_shared_memory(Context& context);

}  // namespace duet
