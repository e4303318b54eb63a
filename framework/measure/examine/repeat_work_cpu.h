// The CPU's part of repeat_work.h, and what it shares with the GPU's.
#pragma once

#include <algorithm>
#include <cstring>

#include "core/host_device.h"
#include "core/parallel.h"
#include "core/storage.h"

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
  if (to.desc.dtype == DType::kInt32) {
    const auto* values = static_cast<const int32_t*>(from);
    std::memcpy(to.memory, values + variant.shift, left * 4);
    std::memcpy(to.data<int32_t>() + left, values, variant.shift * 4);
    return;
  }
  visit_storage(to.desc.dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* values = static_cast<const T*>(from);
    const auto scale = [&](T* out, const T* in, uint64_t n) {
      parallel_ranges(static_cast<int64_t>(n), 2, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) out[i] = T(in[i] * variant.factor);
      });
    };
    scale(to.data<T>(), values + variant.shift, left);
    scale(to.data<T>() + left, values, variant.shift);
  });
}

/// Counts words of 4 bytes; the last may be shorter.
inline void count_differences(const void* a, const void* b, size_t bytes, uint64_t* count) {
  if (std::memcmp(a, b, bytes) == 0) return;
  const auto *p = static_cast<const char*>(a), *q = static_cast<const char*>(b);
  for (size_t i = 0; i < bytes; i += 4) {
    *count += std::memcmp(p + i, q + i, std::min<size_t>(4, bytes - i)) != 0;
  }
}

}  // namespace duet
