#include "core/shape.h"

#include <limits>
#include <stdexcept>

namespace duet {

int64_t product_of(std::initializer_list<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (!__builtin_mul_overflow(product, size, &product)) continue;
    std::string text;
    for (int64_t each : sizes) text += (text.empty() ? "" : " x ") + std::to_string(each);
    throw ShapeError(text + " is more than 64 bits can count; make the sizes smaller");
  }
  return product;
}

int64_t saturated_product_of(std::initializer_list<int64_t> sizes) {
  int64_t product = 1;
  for (int64_t size : sizes) {
    if (__builtin_mul_overflow(product, size, &product)) return std::numeric_limits<int64_t>::max();
  }
  return product;
}

Shape::Shape(std::initializer_list<int64_t> dims) {
  if (dims.size() > kMaxRank) throw std::invalid_argument("Shape: rank above 4");
  for (int64_t d : dims) dims_[rank_++] = d;
}

Shape Shape::behind(int64_t size) const {
  if (rank_ == kMaxRank) throw std::invalid_argument("Shape: rank above 4");
  Shape result;
  result.dims_[result.rank_++] = size;
  for (int i = 0; i < rank_; ++i) result.dims_[result.rank_++] = dims_[i];
  return result;
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) {
    if (__builtin_mul_overflow(n, dims_[i], &n) || n > kMaxElements) {
      throw ShapeError("a tensor of " + to_string() +
                       " has more than 2^40 elements; make the sizes smaller");
    }
  }
  return n;
}

std::string Shape::to_string() const {
  if (rank_ == 0) return "scalar";
  std::string s;
  for (int i = 0; i < rank_; ++i) s += (i ? "x" : "") + std::to_string(dims_[i]);
  return s;
}

}  // namespace duet
