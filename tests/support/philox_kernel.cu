#include "support/philox_kernel.h"

#include "device/check.h"

namespace duet {
namespace {

__global__ void philox_kernel(uint64_t key, uint32_t count, Philox4* words) {
  const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) words[i] = philox_of(key, i);
}

}  // namespace

void queue_philox(Context& context, uint64_t key, uint32_t count, Philox4* words) {
  philox_kernel<<<(count + 255) / 256, 256, 0, context.stream()>>>(key, count, words);
  DUET_LAUNCHED();
}

}  // namespace duet
