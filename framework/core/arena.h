// Memory is planned before it is taken: reserve() or pack() everything, take one block of that many
// bytes, then turn each offset into a pointer.
#pragma once

#include <cstddef>
#include <vector>

namespace duet {

/// Every reservation starts at a multiple of this many bytes (cuDNN's and vector loads' wish).
inline constexpr size_t kAlignment = 256;

inline constexpr size_t align_up(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Ranges that are all needed at the same time.
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

/// A range that is needed from one moment to another, both included; never, if last < first.
struct Lifetime {
  size_t bytes = 0;
  int first = 0;
  int last = -1;

  bool overlaps(const Lifetime& other) const { return first <= other.last && other.first <= last; }
};

struct Packing {
  std::vector<size_t> offsets;  // aligned, of each range
  size_t bytes = 0;             // of all
};

/// Ranges whose lifetimes overlap share no memory; others may. The largest goes first, each to the
/// lowest place that is free for all of its lifetime: not always the smallest packing, but never
/// below the largest sum that is needed at one moment.
Packing pack(const std::vector<Lifetime>& ranges);

}  // namespace duet
