#include <algorithm>

#include "device/attribute.h"
#include "device/cache_flush.h"
#include "device/check.h"

namespace duet {
namespace {

__global__ void read_kernel(const uint4* memory, size_t count, unsigned* sink) {
  unsigned sum = 0;
  const size_t stride = size_t{gridDim.x} * blockDim.x;
  for (size_t i = size_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const uint4 v = memory[i];
    sum += v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x9E3779B9u) *sink = sum;  // never: the memory is zero; but the compiler cannot know
}

}  // namespace

size_t l2_bytes() { return static_cast<size_t>(gpu_attribute(cudaDevAttrL2CacheSize)); }

CacheFlush::CacheFlush(Context& context)
    : context_(context), memory_(Device::kGpu, std::max(2 * l2_bytes(), size_t{64} << 20)) {
  fill_bytes(memory_.data(), Device::kGpu, 0, memory_.bytes());
}

void CacheFlush::queue() {
  constexpr int kThreads = 512, kBlocks = 132 * 4;
  read_kernel<<<kBlocks, kThreads, 0, context_.stream()>>>(
      static_cast<const uint4*>(memory_.data()), memory_.bytes() / sizeof(uint4),
      static_cast<unsigned*>(memory_.data()));
  DUET_LAUNCHED();
}

}  // namespace duet
