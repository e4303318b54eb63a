// The upper half of a float: sign, 8 exponent bits and 7 of the mantissa. For storage: arithmetic
// is done in float, and a result is rounded when it is stored.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/host_device.h"

namespace duet {

struct bfloat16 {
  uint16_t bits;

  bfloat16() = default;
  /// To nearest, ties to even; what is beyond the largest becomes infinite. NaN stays NaN, on the
  /// CPU with its sign.
  DUET_HOST_DEVICE explicit bfloat16(float value) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
#else
    uint32_t word;
    std::memcpy(&word, &value, sizeof word);
    if (value != value) {
      bits = static_cast<uint16_t>(word >> 16 | 0x40u);  // quiet, whatever the lower half held
      return;
    }
    const uint32_t to_even = 0x7FFFu + (word >> 16 & 1u);
    bits = static_cast<uint16_t>((word + to_even) >> 16);
#endif
  }
  DUET_HOST_DEVICE operator float() const {
    const uint32_t word = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &word, sizeof value);
    return value;
  }
};

static_assert(sizeof(bfloat16) == 2);

}  // namespace duet
