// A number as tensor cores take it where tf32 is allowed.
#pragma once

#include <cstdint>
#include <cstring>

namespace duet {

/// 10 mantissa bits, rounded to nearest.
inline float tf32(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  bits = (bits + 0xFFFu + ((bits >> 13) & 1u)) & ~0x1FFFu;
  std::memcpy(&value, &bits, 4);
  return value;
}

}  // namespace duet
