#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "device/device.h"

namespace duet {

/// Bytes of a device's memory that are free now; of the host's, what this process may have of them.
size_t free_memory(Device device);

/// Throws RunError if samples of that many bytes are more than the memory that is free now, or than
/// this process may have; `advice` says what to do about it.
void require_memory(const std::string& name, uint64_t bytes, const std::string& advice);

/// Makes room for `more` elements behind those there are, at least twice the room if any is needed.
template <class T>
void make_room(std::vector<T>& values, size_t more, const std::string& name) {
  if (values.capacity() - values.size() >= more) return;
  const size_t wanted = std::max(values.size() + more, 2 * values.capacity());
  require_memory(name, wanted * sizeof(T), "is it a data set?");
  values.reserve(wanted);
}

}  // namespace duet
