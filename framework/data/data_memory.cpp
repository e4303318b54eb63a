#include "data/data_memory.h"

#include <algorithm>

#include "core/error.h"
#include "device/device.h"
#include "device/host_memory.h"

namespace duet {

void require_memory(const std::string& name, uint64_t bytes, const std::string& advice) {
  const size_t free = std::min(host_memory(), available_memory().value_or(host_memory()));
  if (bytes <= free) return;
  throw RunError("out of memory: " + name + " would take " + std::to_string(bytes >> 20) +
                 " MiB, and " + std::to_string(free >> 20) + " MiB are free; " + advice);
}

}  // namespace duet
