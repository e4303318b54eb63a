// Hopper's matrix instruction (PTX ISA, "wgmma.mma_async"; sm_90a only): four warps, a warpgroup,
// multiply 64 x 16 by 16 x n bfloat16, or 64 x 8 by 8 x n tf32, from shared memory and add to sums in
// their registers, while they go on.
//
// Sums d of thread t of the warpgroup: d[4j + 2i + e] is row 16 (t/32) + (t%32)/4 + 8i, column
// 8j + 2 (t%4) + e.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include "core/bfloat16.h"

// The instruction exists in code for exactly this architecture.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define DUET_HAS_WGMMA 1
#else
#define DUET_HAS_WGMMA 0
#endif

namespace duet {

/// An operand in shared memory, in rows of 128 or 64 bytes as copy_box() brings them. Rows are rows of the
/// operand where the sum runs along them, and it begins at any row, plus 32 bytes for every
/// instruction: the swizzle goes by addresses. Else (turned) they lie along the sum; it begins at a multiple of eight rows, and the next
/// row of elements of the operand's other axis `next` bytes further on.
template <int row_bytes = 128>
__device__ __forceinline__ uint64_t matrix_descriptor(const void* shared, uint32_t next) {
  static_assert(row_bytes == 128 || row_bytes == 64);
  constexpr uint64_t kEightRows = 8 * row_bytes, kSwizzle = uint64_t{128 / row_bytes} << 62;
  const uint64_t address = __cvta_generic_to_shared(shared);
  return (address & 0x3ffff) >> 4 | uint64_t(next >> 4) << 16 | (kEightRows >> 4) << 32 | kSwizzle;
}

/// An operand without a swizzle, whose sum runs along its rows: eight rows of 16 bytes lie together; the next 16 bytes of
/// rows 128 bytes further on, and the next eight rows 256.
__device__ __forceinline__ uint64_t core_descriptor(const void* shared) {
  const uint64_t address = __cvta_generic_to_shared(shared);
  return (address & 0x3ffff) >> 4 | uint64_t{128 >> 4} << 16 | uint64_t{256 >> 4} << 32;
}

/// Where the next step lies in the ring of stages, and the phase of its barriers.
template <class Tile>
struct WgmmaRing {
  int stage = 0, phase = 0;
  __device__ __forceinline__ void advance() {
    if (++stage == Tile::kStages) stage = 0, phase ^= 1;
  }
};

/// For the threads of the two multiplying warpgroups.
template <class Tile>
__device__ __forceinline__ void wait_multipliers() {
  asm volatile("bar.sync 1, %0;" ::"n"(Tile::kMultipliers) : "memory");
}

#if DUET_HAS_WGMMA

/// Before the first multiply(), after any other use of its sums, and where a branch or a loop ends before the next
/// multiply() or commit: ptxas puts one there otherwise, and says so (C7519).
__device__ __forceinline__ void wgmma_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
/// Ends a group of multiplications.
__device__ __forceinline__ void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most so many groups are under way.
template <int groups>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory");
}
/// After wgmma_wait(): no read of the sums d is moved before it.
template <int n>
__device__ __forceinline__ void wgmma_settle(float (&d)[n]) {
#pragma unroll
  for (float& sum : d) asm volatile("" : "+f"(sum)::"memory");
}
/// multiply(d, a, b, adds): d = a * b, or d += a * b, for n columns and the terms of 32 bytes. T is
/// bfloat16; or float, of which the instruction reads tf32, the 19 upper bits, and takes no operand turned.
template <class T, int n, bool kTurnA, bool kTurnB>
struct Wgmma;

#define DUET_ACC4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define DUET_ACC16(i) DUET_ACC4(i), DUET_ACC4(i + 4), DUET_ACC4(i + 8), DUET_ACC4(i + 12)

// `sums` are the places of the n / 2 sums, `operands` of what follows them: a, b, and the two turns.
#define DUET_WGMMA(n, sums, adds_at, operands, turns, ...)                                     \
  template <class T, bool kTurnA, bool kTurnB>                                                 \
  struct Wgmma<T, n, kTurnA, kTurnB> {                                                         \
    static_assert(std::is_same_v<T, bfloat16> || !(kTurnA || kTurnB));                         \
    __device__ __forceinline__ static void multiply(float (&d)[n / 2], uint64_t a, uint64_t b, \
                                                    bool adds) {                               \
      if constexpr (std::is_same_v<T, bfloat16>) {                                             \
        asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds_at                         \
                     ", 0;\n"                                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" sums         \
                     "}, " operands ", adds, 1, 1, " turns ";\n}"                              \
                     : __VA_ARGS__                                                             \
                     : "l"(a), "l"(b), "r"(int(adds)), "n"(int(kTurnA)), "n"(int(kTurnB)));    \
      } else {                                                                                 \
        asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds_at                         \
                     ", 0;\n"                                                                  \
                     "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" sums          \
                     "}, " operands ", adds, 1, 1;\n}"                                         \
                     : __VA_ARGS__                                                             \
                     : "l"(a), "l"(b), "r"(int(adds)));                                        \
      }                                                                                        \
    }                                                                                          \
  }

#define DUET_SUMS4 "%0, %1, %2, %3"
#define DUET_SUMS32                                                             \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, " \
  "%17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define DUET_SUMS40 \
  DUET_SUMS32       \
  ", "              \
  "%32, %33, %34, %35, %36, %37, %38, %39"
#define DUET_SUMS44 \
  DUET_SUMS40       \
  ", "              \
  "%40, %41, %42, %43"
#define DUET_SUMS48 \
  DUET_SUMS44       \
  ", "              \
  "%44, %45, %46, %47"
#define DUET_SUMS52 \
  DUET_SUMS48       \
  ", "              \
  "%48, %49, %50, %51"
#define DUET_SUMS56 \
  DUET_SUMS52       \
  ", "              \
  "%52, %53, %54, %55"
#define DUET_SUMS64 \
  DUET_SUMS56       \
  ", "              \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define DUET_SUMS96                                                             \
  DUET_SUMS64                                                                   \
  ", "                                                                          \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, "           \
  "%77, %78, %79, %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, " \
  "%92, %93, %94, %95"
#define DUET_SUMS128                                                               \
  DUET_SUMS96                                                                      \
  ", "                                                                             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, "                       \
  "%106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, " \
  "%119, %120, %121, %122, %123, %124, %125, %126, %127"

DUET_WGMMA(8, DUET_SUMS4, "%6", "%4, %5", "%7, %8", DUET_ACC4(0));
DUET_WGMMA(64, DUET_SUMS32, "%34", "%32, %33", "%35, %36", DUET_ACC16(0), DUET_ACC16(16));
DUET_WGMMA(80, DUET_SUMS40, "%42", "%40, %41", "%43, %44", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC4(32), DUET_ACC4(36));
DUET_WGMMA(88, DUET_SUMS44, "%46", "%44, %45", "%47, %48", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC4(32), DUET_ACC4(36), DUET_ACC4(40));
DUET_WGMMA(96, DUET_SUMS48, "%50", "%48, %49", "%51, %52", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC16(32));
DUET_WGMMA(104, DUET_SUMS52, "%54", "%52, %53", "%55, %56", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC16(32), DUET_ACC4(48));
DUET_WGMMA(112, DUET_SUMS56, "%58", "%56, %57", "%59, %60", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC16(32), DUET_ACC4(48), DUET_ACC4(52));
DUET_WGMMA(128, DUET_SUMS64, "%66", "%64, %65", "%67, %68", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC16(32), DUET_ACC16(48));
DUET_WGMMA(192, DUET_SUMS96, "%98", "%96, %97", "%99, %100", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC16(32), DUET_ACC16(48), DUET_ACC16(64), DUET_ACC16(80));
DUET_WGMMA(256, DUET_SUMS128, "%130", "%128, %129", "%131, %132", DUET_ACC16(0), DUET_ACC16(16),
           DUET_ACC16(32), DUET_ACC16(48), DUET_ACC16(64), DUET_ACC16(80), DUET_ACC16(96),
           DUET_ACC16(112));

/// multiply(d, a, b, adds): the same in tf32 with A in registers. a[2i + j] of thread t of the warpgroup is row
/// 16 (t/32) + (t%32)/4 + 8j, term t%4 + 4i.
template <int n>
struct WgmmaRows;
#define DUET_WGMMA_ROWS(n, sums, operands, adds_at, ...)                                           \
  template <>                                                                                      \
  struct WgmmaRows<n> {                                                                            \
    __device__ __forceinline__ static void multiply(float (&d)[n / 2], const uint32_t (&a)[4],     \
                                                    uint64_t b, bool adds) {                       \
      asm volatile("{\n.reg .pred adds;\nsetp.ne.b32 adds, " adds_at                               \
                   ", 0;\n"                                                                        \
                   "wgmma.mma_async.sync.aligned.m64n" #n "k8.f32.tf32.tf32 {" sums "}, " operands \
                   ", adds, 1, 1;\n}"                                                              \
                   : __VA_ARGS__                                                                   \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(adds)));          \
    }                                                                                              \
  }
DUET_WGMMA_ROWS(64, DUET_SUMS32, "{%32, %33, %34, %35}, %36", "%37", DUET_ACC16(0), DUET_ACC16(16));
DUET_WGMMA_ROWS(128, DUET_SUMS64, "{%64, %65, %66, %67}, %68", "%69", DUET_ACC16(0), DUET_ACC16(16),
                DUET_ACC16(32), DUET_ACC16(48));

#undef DUET_WGMMA_ROWS
#undef DUET_WGMMA
#undef DUET_SUMS128
#undef DUET_SUMS96
#undef DUET_SUMS64
#undef DUET_SUMS56
#undef DUET_SUMS52
#undef DUET_SUMS48
#undef DUET_SUMS44
#undef DUET_SUMS40
#undef DUET_SUMS32
#undef DUET_SUMS4
#undef DUET_ACC16
#undef DUET_ACC4

#endif  // DUET_HAS_WGMMA

}  // namespace duet
