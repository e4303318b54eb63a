// Loads behind a condition that stay where the program has them: of others the compiler puts each where its value is used, and
// each waits for the one before.
#pragma once

#include <cuda_runtime.h>

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

}  // namespace duet
