#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "data/set/dataset.h"

namespace duet {

/// 64 bits that are others, but for chance, if a byte is another.
uint64_t hash_of(const void* data, size_t bytes);

/// 16 hexadecimal digits that are others, but for chance, if any image, number, label or record is
/// another or they come in another order. Not safe against intent.
std::string fingerprint(const Dataset& dataset);

}  // namespace duet
