// The C++ types of all values that tensors hold, for loops that are written once.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "core/bfloat16.h"
#include "core/tensor.h"

namespace duet {

/// Calls visit(T()) with the C++ type of `dtype`, any but float16.
template <class Visit>
void visit_values(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kBFloat16:
      return visit(bfloat16{});
    case DType::kInt32:
      return visit(int32_t{});
    case DType::kUInt8:
      return visit(uint8_t{});
    default:
      throw std::logic_error("no values are read or written in " + std::string(to_string(dtype)));
  }
}

}  // namespace duet
