#include "device/check.h"
#include "measure/memory_use.h"

namespace duet::gpu {

int64_t memory_in_use() {
  size_t free = 0, total = 0;
  DUET_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<int64_t>(total) - static_cast<int64_t>(free);
}

}  // namespace duet::gpu
