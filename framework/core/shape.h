// Shapes are logical: N C H W for images, N F for features, whatever the physical layout is.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace duet {

/// Sizes that do not fit: thrown by a layer's shape rule, in terms of its own sizes, and by the
/// arithmetic below.
class ShapeError : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

/// The product of sizes. Throws ShapeError where 64 bits cannot hold it.
int64_t product_of(std::initializer_list<int64_t> sizes);
/// The same, for estimates: the largest number there is where 64 bits cannot hold it.
int64_t saturated_product_of(std::initializer_list<int64_t> sizes);

/// Up to four sizes, outermost first. A default Shape has rank 0 and one element (a scalar).
class Shape {
 public:
  static constexpr int kMaxRank = 4;
  /// More than any machine has room for, and few enough that sums of bytes fit in 64 bits.
  static constexpr int64_t kMaxElements = int64_t{1} << 40;

  Shape() = default;
  Shape(std::initializer_list<int64_t> dims);

  int rank() const { return rank_; }
  /// REQUIRES: 0 <= i < rank().
  int64_t operator[](int i) const { return dims_[i]; }
  /// The innermost size. REQUIRES: rank() > 0.
  int64_t last() const { return dims_[rank_ - 1]; }
  /// Throws ShapeError if there are more than kMaxElements.
  int64_t elements() const;
  /// The same sizes behind another, as of N samples of this shape. Throws std::invalid_argument
  /// beyond kMaxRank.
  Shape behind(int64_t size) const;
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
