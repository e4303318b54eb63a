// float32 as tf32, of which tensor cores multiply.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace duet {

/// To the nearest tf32. The matrix instruction reads its bits and drops the others.
__device__ __forceinline__ float tf32_rounded(float value) {
  uint32_t word;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(value));
  return __uint_as_float(word);
}

}  // namespace duet
