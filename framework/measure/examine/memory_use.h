// How much memory this process uses.
#pragma once

#include <cstdint>

#include "device/device.h"

namespace duet {

/// Bytes in use: on the CPU of the C library's heap (0 where another allocator has taken its place,
/// as under a sanitizer), on a GPU of the device, by every process on it.
int64_t memory_in_use(Device device);

}  // namespace duet
