// What custom_direct's products on tensor cores share.
#pragma once

#include "kernels/mma_tile.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

/// Calls f with the instruction that multiplies operands stored as T in that math.
template <class T, class F>
void with_product_mma(Math math, F f) {
  if constexpr (std::is_same_v<T, bfloat16>) {
    f(MmaBf16{});
  } else {
    math == Math::kFP32 ? f(StoredMma3xTf32{}) : f(MmaTf32{});
  }
}

/// How texts name it.
template <class T>
const char* product_mma_text(Math math) {
  const char* text = "";
  with_product_mma<T>(math, [&]<class Mma>(Mma) { text = Mma::kText; });
  return text;
}

}  // namespace duet
