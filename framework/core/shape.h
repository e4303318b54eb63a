// Shapes are logical: N C H W for images, N F for features, whatever the physical layout is.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

namespace duet {

/// Up to four sizes, outermost first. A default Shape has rank 0 and one element (a scalar).
class Shape {
 public:
  static constexpr int kMaxRank = 4;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);

  int rank() const { return rank_; }
  /// REQUIRES: 0 <= i < rank().
  int64_t operator[](int i) const { return dims_[i]; }
  int64_t elements() const;
  /// The same shape but for one size. REQUIRES: 0 <= axis < rank().
  Shape with(int axis, int64_t size) const {
    Shape result = *this;
    result.dims_[axis] = size;
    return result;
  }
  /// "64x1x28x28"; "scalar" for rank 0.
  std::string to_string() const;
  bool operator==(const Shape&) const = default;

 private:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace duet
