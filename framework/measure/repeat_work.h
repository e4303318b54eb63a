// What repeated calls queue beside the calls: inputs written anew, and outputs compared where they
// lie. Nothing here waits or reads back, and all of it can be captured in a graph. All memory is on
// the context's device.
#pragma once

#include "device/context.h"

namespace duet {

/// Writes variant `*number` of `from` to `to`. Variant 0 is `from`; every other one has its
/// elements rotated and, if they are float32, multiplied by a factor between 0.75 and 1.25, so that
/// its scale stays and any sum over it changes. REQUIRES: float32 or int32, as many values in
/// `from`.
void queue_variant(Context& context, const Tensor& to, const void* from, const uint64_t* number);

/// *to = from + *number.
void queue_step(Context& context, uint64_t* to, uint64_t from, const uint64_t* number);

/// *number += by.
void queue_advance(Context& context, uint64_t* number, uint64_t by);

/// Adds to *count the number of 4-byte words in which `a` and `b` differ. REQUIRES: `bytes` is a
/// multiple of 4.
void queue_count_differences(Context& context, const void* a, const void* b, size_t bytes,
                             uint64_t* count);

/// Fills the shared memory of the GPU's multiprocessors with NaN; nothing on the CPU.
void queue_fill_shared_memory(Context& context);

namespace gpu {
/// The GPU's part; repeat_work.cu.
void queue_variant(Context& context, const Tensor& to, const void* from, const uint64_t* number);
void queue_step(Context& context, uint64_t* to, uint64_t from, const uint64_t* number);
void queue_advance(Context& context, uint64_t* number, uint64_t by);
void queue_count_differences(Context& context, const void* a, const void* b, size_t bytes,
                             uint64_t* count);
void queue_fill_shared_memory(Context& context);
}  // namespace gpu

/// Of variant `number` of `count` elements: how far they are rotated, and their factor. For the
/// host and for kernels.
struct Variant {
  uint64_t shift;
  float factor;

#ifdef __CUDACC__
  __host__ __device__
#endif
  Variant(uint64_t number, uint64_t count)
      : shift(number * 7919 % count),
        factor(number == 0 ? 1.0f : 0.75f + static_cast<float>(number % 127) / 254.0f) {
  }
};

}  // namespace duet
