// The CPU's part of repeat_work.h, and what it shares with the GPU's.
#pragma once

#include <cstring>

#include "core/parallel.h"
#include "core/philox.h"
#include "core/tensor.h"

namespace duet {

/// Of variant `number` of `count` elements: how far they are rotated, and their factor.
struct Variant {
  uint64_t shift;
  float factor;

  DUET_HOST_DEVICE Variant(uint64_t number, uint64_t count)
      : shift(number * 7919 % count),
        factor(number == 0 ? 1.0f : 0.75f + static_cast<float>(number % 127) / 254.0f) {}
};

inline void write_variant(const Tensor& to, const void* from, const uint64_t* number) {
  const auto count = static_cast<uint64_t>(to.elements());
  const Variant variant(*number, count);
  const uint64_t left = count - variant.shift;  // before the values wrap around
  if (to.desc.dtype != DType::kFloat32) {
    const auto* values = static_cast<const int32_t*>(from);
    std::memcpy(to.memory, values + variant.shift, left * 4);
    std::memcpy(static_cast<int32_t*>(to.memory) + left, values, variant.shift * 4);
    return;
  }
  const auto* values = static_cast<const float*>(from);
  auto* out = to.data<float>();
  const auto scale = [&](float* out, const float* in, uint64_t n) {
    parallel_ranges(static_cast<int64_t>(n), 2, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) out[i] = in[i] * variant.factor;
    });
  };
  scale(out, values + variant.shift, left);
  scale(out + left, values, variant.shift);
}

inline void count_differences(const void* a, const void* b, size_t bytes, uint64_t* count) {
  if (std::memcmp(a, b, bytes) == 0) return;
  const auto *p = static_cast<const uint32_t*>(a), *q = static_cast<const uint32_t*>(b);
  for (size_t i = 0; i < bytes / 4; ++i) *count += p[i] != q[i];
}

}  // namespace duet
