#include "core/shape.h"

#include <stdexcept>

namespace duet {

Shape::Shape(std::initializer_list<int64_t> dims) {
  if (dims.size() > kMaxRank) throw std::invalid_argument("Shape: rank above 4");
  for (int64_t d : dims) dims_[rank_++] = d;
}

int64_t Shape::elements() const {
  int64_t n = 1;
  for (int i = 0; i < rank_; ++i) n *= dims_[i];
  return n;
}

std::string Shape::to_string() const {
  if (rank_ == 0) return "scalar";
  std::string s;
  for (int i = 0; i < rank_; ++i) s += (i ? "x" : "") + std::to_string(dims_[i]);
  return s;
}

}  // namespace duet
