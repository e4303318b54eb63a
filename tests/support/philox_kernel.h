// Philox by a kernel, in a build with CUDA.
#pragma once

#include "device/context.h"
#include "device/philox.h"

namespace duet {

/// Block i of those that the test compares: all words of counter and key change with i.
inline DUET_HOST_DEVICE Philox4 philox_of(uint64_t key, uint32_t i) {
  return philox4x32({i, i * i, ~i, 7 * i}, key + i);
}
/// words[i] = philox_of(key, i)
void queue_philox(Context& context, uint64_t key, uint32_t count, Philox4* words);

}  // namespace duet
