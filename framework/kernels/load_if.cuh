// Loads behind a condition that stay where the program has them: of others the compiler puts each where its value is used, and
// each waits for the one before.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace duet {

/// What lies at `from`, or zeros. In the order of the program among each other; a __syncwarp() behind several keeps
/// what uses them behind all of them.
__device__ __forceinline__ void load_if(bool inside, const void* from, float4& to) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %5, 0; mov.b32 %0, 0; mov.b32 %1, 0; mov.b32 %2, 0; "
      "mov.b32 %3, 0; @p ld.global.v4.f32 {%0, %1, %2, %3}, [%4]; }"
      : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w)
      : "l"(from), "r"(int(inside)));
}
__device__ __forceinline__ void load_if(bool inside, const void* from, float2& to) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %3, 0; mov.b32 %0, 0; mov.b32 %1, 0; "
      "@p ld.global.v2.f32 {%0, %1}, [%2]; }"
      : "=f"(to.x), "=f"(to.y)
      : "l"(from), "r"(int(inside)));
}
__device__ __forceinline__ void load_if(bool inside, const void* from, float& to) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b32 %0, 0; @p ld.global.f32 %0, [%1]; }"
               : "=f"(to)
               : "l"(from), "r"(int(inside)));
}
__device__ __forceinline__ void load_if(bool inside, const void* from, unsigned short& to) {
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %2, 0; mov.b16 %0, 0; @p ld.global.u16 %0, [%1]; }"
               : "=h"(to)
               : "l"(from), "r"(int(inside)));
}

/// Starts the copy of so many bytes to shared memory, of zeros where they are not inside (cp.async).
template <int bytes>
__device__ __forceinline__ void copy_or_zeros(void* to, const void* from, bool inside) {
#if __CUDA_ARCH__ >= 800
  const auto address = uint32_t(__cvta_generic_to_shared(to));
  if constexpr (bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(inside ? 16 : 0)
                 : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from),
                 "n"(bytes), "r"(inside ? bytes : 0)
                 : "memory");
  }
#endif
}

}  // namespace duet
