// Operands of float that lie turned, the sum across rows of 128 bytes (wgmma_operands.cuh). The instruction takes
// them with their terms side by side only, but for A from registers, where any order will do.
//
// Mapping:  the copy engine brings boxes as they lie. A multiplying warpgroup loads its rows of A to registers. Three warps beside
//           the copying one turn B where it is, a square of 32 terms x 32 rows a warp: a lane loads four rows' four terms by 16
//           bytes a term and stores them by 16 bytes a row. They pass a stage on by a third barrier, `split`.
// Traffic:  in shared memory B is read once more and written once more, without conflicts: of eight lanes that are served at a
//           time each has another column of 16 bytes, as it reads and as it writes.
//
// Terms of A are in pairs, so that loads of A have no conflicts: term p of eight of an instruction is number
// 2 (p % 4) + p / 4 in memory; B is turned to the same order.
#pragma once

#include "kernels/tf32.cuh"
#include "kernels/wgmma.cuh"
#include "kernels/wgmma_operands.cuh"

namespace duet {

#if DUET_HAS_WGMMA

/// A thread's part of 64 rows of A of a step, by the instruction, as WgmmaRows takes it.
struct RowValues {
  static constexpr int kInstructions = kRowBytes / 32;
  float of[kInstructions][4];

  template <bool kTurned>
  __device__ __forceinline__ void load(const char* rows) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x % 128 / 32, row = lane / 4;
    if constexpr (kTurned) {
      // The pair of terms of a lane, and its 16 rows among a box's 32.
      const int pair = lane % 4, piece = (warp % 2 * 4 + row / 4) ^ (2 * pair);
      const char* const from =
          rows + warp / 2 * (32 * kRowBytes) + 2 * pair * kRowBytes + row % 4 * 4;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int term = i / 2, below = i % 2;  // second of the pair; eight rows below
        const char* const at = from + term * kRowBytes + (piece ^ (2 * below + term)) * 16;
#pragma unroll
        for (int k = 0; k < kInstructions; ++k)
          of[k][i] = *reinterpret_cast<const float*>(at + k * 8 * kRowBytes);
      }
    } else {
      const char* const from = rows + (warp * 16 + row) * kRowBytes + lane % 4 * 4;
#pragma unroll
      for (int k = 0; k < kInstructions; ++k) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int piece = (2 * k + i / 2) ^ row;  // of 16 bytes, as copy_box() swizzles them
          of[k][i] = *reinterpret_cast<const float*>(from + i % 2 * 8 * kRowBytes + piece * 16);
        }
      }
    }
  }
  /// Of a thread's two rows.
  __device__ __forceinline__ void add_to(float (&row_sums)[2]) const {
#pragma unroll
    for (const auto& of_instruction : of)
#pragma unroll
      for (int i = 0; i < 4; ++i) row_sums[i % 2] += of_instruction[i];
  }
};

/// Joins what four lanes have of their two rows, as a product with ones leaves it.
__device__ __forceinline__ void join_row_sums(const float (&mine)[2], float (&row_sums)[4]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    float total = mine[i];
    total += __shfl_xor_sync(~0u, total, 1);
    total += __shfl_xor_sync(~0u, total, 2);
    row_sums[2 * i] = total;
  }
}

/// Of the head that the units read of the value itself, and so that what they read of the rest is its nearest.
__device__ __forceinline__ float rest_of_cut(float value) {
  const float rest = value - __uint_as_float(__float_as_uint(value) & 0xffffe000u);
  return __uint_as_float(__float_as_uint(rest) + 0x1000u);
}

/// A lane's two blocks of four terms x four rows of a square, 32 x 32, which begins at a multiple of 1024 bytes.
template <bool kPaired>
class TurnedSquare {
 public:
  /// From rows of 32 values of a term, of which `terms` are there; the others are zeros.
  __device__ __forceinline__ void load(const char* square, uint32_t terms) {
    const uint32_t first = kPaired ? column() / 2 * 8 + column() % 2 : column() * 4;
    const uint32_t at = address(square) + first * kRowBytes + (quad() ^ (first % 8)) * 16;
    constexpr uint32_t kNext = kPaired ? 2 : 1;  // term, and piece as it is swizzled
    const int other = column() & 4 ? -16 : 16;   // terms from the first block to the other
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
#pragma unroll
      for (uint32_t t = 0; t < 4; ++t) {
        float(&to)[4] = terms_[half][t];
        const uint32_t from = (at + half * other * kRowBytes) ^ t * kNext * (kRowBytes + 16);
        // Most operands have all, which the compiler knows.
        if (terms == 32) {
          asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                       : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3])
                       : "r"(from)
                       : "memory");
        } else {
          to[0] = to[1] = to[2] = to[3] = 0.f;
          asm volatile(
              "{\n.reg .pred there;\nsetp.lt.u32 there, %5, %6;\n"
              "@there ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
              : "+f"(to[0]), "+f"(to[1]), "+f"(to[2]), "+f"(to[3])
              : "r"(from), "r"(first + half * other + t * kNext), "r"(terms)
              : "memory");
        }
      }
    }
  }
  /// To rows of 32 terms, of values as function() makes them.
  template <class Function>
  __device__ __forceinline__ void store(char* square, Function function) const {
    const uint32_t first = quad() * 4;
    const uint32_t at = address(square) + first * kRowBytes + (column() ^ (first % 8)) * 16;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
      const auto& t = terms_[half];
#pragma unroll
      for (uint32_t i = 0; i < 4; ++i)
        asm volatile(
            "st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at ^ half * 64 ^ i * (kRowBytes + 16)),
            "f"(function(t[0][i])), "f"(function(t[1][i])), "f"(function(t[2][i])),
            "f"(function(t[3][i]))
            : "memory");
    }
  }

 private:
  /// Four rows, and four terms: of eight lanes in a row each has another quad and another column, and another place of 16
  /// bytes by the swizzle as it loads (quad ^ term % 8) and as it stores (column ^ row % 8). The other block has column ^ 4.
  __device__ __forceinline__ static uint32_t quad() { return threadIdx.x % 8; }
  __device__ __forceinline__ static uint32_t column() {
    const uint32_t q = quad(), swapped = (q & 4) | (q & 1) << 1 | (q & 2) >> 1;
    return swapped ^ (threadIdx.x % 32 / 8);
  }
  __device__ __forceinline__ static uint32_t address(const char* shared) {
    return uint32_t(__cvta_generic_to_shared(shared));
  }
  float terms_[2][4][4];
};

/// By one of kWarps warps: turns its squares of B, every so many from number `square` on, of the block's first `steps` steps, of `terms` each;
/// of split tiles with the rests beside.
template <class Tile, int kWarps, bool kPaired, class Smem>
__device__ __forceinline__ void turn_squares(Smem& smem, int& square, int steps, int terms) {
  constexpr int kSquares = Tile::kN / 32;  // of a step
  // A barrier tells one phase from the next alone: a warp must have waited for the one before, of the same stage.
  static_assert(kSquares >= kWarps || Tile::kStages * kSquares % kWarps == 0);
  for (; square < steps * kSquares; square += kWarps) {
    const int step = square / kSquares, at = square % kSquares * (32 * kRowBytes);
    auto& stage = smem.stage[step % Tile::kStages];
    smem.full[step % Tile::kStages].wait(step / Tile::kStages);
    TurnedSquare<kPaired> values;
    values.load(stage.b + at, terms);
    __syncwarp();
    if constexpr (Tile::kSplit) {
      values.store(stage.b + at, [](float value) { return value; });
      values.store(stage.rest_b + at, [](float value) { return rest_of_cut(value); });
    } else {
      values.store(stage.b + at, [](float value) { return tf32_rounded(value); });
    }
    fence_async_proxy();
    __syncwarp();
    if (threadIdx.x % 32 == 0) smem.split[step % Tile::kStages].arrive();
  }
}

/// The sums of `count` steps, and of A's rows, of a warpgroup of number `group`, in tf32 with A in registers.
template <class Tile, class Smem>
__device__ __forceinline__ void multiply_turned_steps(Smem& smem, WgmmaRing<Tile>& ring, int group,
                                                      int count, float (&d)[Tile::kN / 2],
                                                      float (&row_sums)[4]) {
  RowValues values;
  uint32_t a[RowValues::kInstructions][4];
  float my_row_sums[2] = {};
  const auto load = [&] {
    smem.full[ring.stage].wait(ring.phase);
    values.load<true>(smem.stage[ring.stage].a + group * kPanel * kRowBytes);
  };
  load();
  for (int i = 0; i < count; ++i) {
    values.add_to(my_row_sums);
#pragma unroll
    for (int k = 0; k < RowValues::kInstructions; ++k) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        a[k][j] = __float_as_uint(tf32_rounded(values.of[k][j]));
        asm volatile("" : "+r"(a[k][j])::"memory");
      }
    }
    const WgmmaRing<Tile> now = ring;
    const char* const b = smem.stage[now.stage].b;
    ring.advance();
    smem.split[now.stage].wait(now.phase);
    wgmma_begin();
#pragma unroll
    for (int k = 0; k < RowValues::kInstructions; ++k)
      WgmmaRows<Tile::kN>::multiply(d, a[k], matrix_descriptor(b + k * 32, 0), i > 0 || k > 0);
    wgmma_commit();
    if (i + 1 < count) load();
    wgmma_wait<0>();
    smem.release(now.stage);
  }
  wgmma_settle(d);
  join_row_sums(my_row_sums, row_sums);
}

#endif  // DUET_HAS_WGMMA

}  // namespace duet
