#include "measure/examine/memory_use.h"

#include <malloc.h>

#include "device/gpu.h"

namespace duet {

int64_t memory_in_use(Device device) {
  if (device == Device::kGpu) return gpu::memory_in_use();
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

}  // namespace duet
