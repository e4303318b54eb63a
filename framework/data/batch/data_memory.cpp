#include "data/batch/data_memory.h"

#include <algorithm>

#include "core/error.h"
#include "device/gpu.h"
#include "device/host_memory.h"

namespace duet {

size_t free_memory(Device device) {
  if (device == Device::kCpu) {
    return std::min(host_memory(), available_memory().value_or(host_memory()));
  }
  const size_t all = gpu_memory();
  return all - std::min(all, static_cast<size_t>(gpu::memory_in_use()));
}

void require_memory(const std::string& name, uint64_t bytes, const std::string& advice) {
  const size_t free = free_memory(Device::kCpu);
  if (bytes <= free) return;
  throw RunError("out of memory: " + name + " would take " + std::to_string(bytes >> 20) +
                 " MiB, and " + std::to_string(free >> 20) + " MiB are free; " + advice);
}

}  // namespace duet
