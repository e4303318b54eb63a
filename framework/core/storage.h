// The C++ types of tensors' values, for loops that are written once for all of them.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "core/bfloat16.h"
#include "core/tensor.h"

namespace duet {

/// The C++ type of accumulator_of() the type that T stores.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

/// Of float, double and bfloat16.
template <class T>
constexpr DType dtype_of = std::is_same_v<T, bfloat16> ? DType::kBFloat16
                           : std::is_same_v<T, double> ? DType::kFloat64
                                                       : DType::kFloat32;

/// Calls visit(T()) with the C++ type of float32, float64 or bfloat16.
template <class Visit>
void visit_storage(DType dtype, Visit&& visit) {
  switch (dtype) {
    case DType::kFloat32:
      return visit(float{});
    case DType::kFloat64:
      return visit(double{});
    case DType::kBFloat16:
      return visit(bfloat16{});
    default:
      throw std::logic_error("no activations are stored in " + std::string(to_string(dtype)));
  }
}

/// The same for all that tensors hold: int32 and uint8 too.
template <class Visit>
void visit_values(DType dtype, Visit&& visit) {
  if (dtype == DType::kInt32) return visit(int32_t{});
  if (dtype == DType::kUInt8) return visit(uint8_t{});
  visit_storage(dtype, visit);
}

/// The same for float32 and bfloat16 alone, which kernels on a GPU are compiled for.
template <class Visit>
void visit_gpu_storage(DType dtype, Visit&& visit) {
  if (dtype == DType::kBFloat16) return visit(bfloat16{});
  if (dtype == DType::kFloat32) return visit(float{});
  throw std::logic_error("no kernel stores " + std::string(to_string(dtype)));
}

/// `value` as `dtype` stores it; whole numbers as they are.
double rounded_to(DType dtype, double value);

}  // namespace duet
