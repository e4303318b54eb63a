#include "measure/memory_use.h"

#include <malloc.h>

namespace duet {

int64_t memory_in_use([[maybe_unused]] Device device) {
#if DUET_WITH_CUDA
  if (device == Device::kGpu) return gpu::memory_in_use();
#endif
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace duet
