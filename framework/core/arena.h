// Memory is planned before it is taken: reserve() everything, take one block of bytes(), then turn
// each offset into a pointer.
#pragma once

#include <cstddef>

namespace duet {

/// Every reservation starts at a multiple of this many bytes (cuDNN's and vector loads' wish).
inline constexpr size_t kAlignment = 256;

inline constexpr size_t align_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

class ArenaPlan {
 public:
  /// Returns the offset of a new, aligned range of `bytes`.
  size_t reserve(size_t bytes) {
    const size_t offset = bytes_;
    bytes_ += align_up(bytes);
    return offset;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace duet
