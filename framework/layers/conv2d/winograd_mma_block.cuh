// The 16 products of a Winograd block on tensor cores: in tf32, or float32 in parts, each product as three
// of tf32 (kernels/mma_tile.cuh, kernels/wgmma_split.cuh).
#pragma once

#include "kernels/mma_tile.cuh"
#include "layers/conv2d/winograd_block.cuh"

namespace duet {

// Each of 16 warps has a point, and so both its operands to itself: what it takes apart, no other warp
// needs. The instruction's rows are columns of B, its columns rows of A.
//
// Chunks in shared memory: A [depth][point][32], depths 8 banks apart and 4 to 7 another four, so that
// the 4 depths x 8 rows of a fragment lie in 32 banks, as do 8 depths x 4 rows of a warp that stores.
// B [point][16 columns][lane][4], a lane's four words of a fragment beside each other. For those that
// store 8 depths x 4 columns the two words of a depth change places with every second pair of columns:
// rows of the instruction are numbered so.
template <bool kInParts>
struct WinogradMmaBlock : WinogradBlockShape<1, 32, 64, 512> {
  using Shape = WinogradBlockShape<1, 32, 64, 512>;
  using Shape::kA, Shape::kB, Shape::kDepth, Shape::kThreads, Shape::kExchangePitch,
      Shape::kExchangePoint;
  static constexpr int kPitchA = 16 * kA + 8;
  static constexpr int kChunkA = kDepth * kPitchA, kChunkB = 16 * kDepth * kB;
  static constexpr int kPointA = kA, kPointB = kDepth * kB;
  static constexpr int64_t kChunkCost = 13000;
  static constexpr const char* kText = kInParts ? ", mma 3xtf32" : ", mma tf32";

  __device__ __forceinline__ static float stored(float point) {
    if constexpr (kInParts) return point;
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(point));
    return __uint_as_float(rounded);
  }

  __host__ __device__ static constexpr int at_a(int depth, int row) {
    return depth * kPitchA + depth / 4 * 4 + row;
  }
  __host__ __device__ static constexpr int at_b(int depth, int column) {
    const int lane = column % 8 * 4 + depth % 4, upper = column / 8 % 2 ^ column / 2 % 2;
    return column / 16 * 128 + lane * 4 + depth / 4 * 2 + upper;
  }

  static constexpr int kTiles = kB / 16, kColumns = kA / 8;
  float acc[kTiles][kColumns][4];

  __device__ __forceinline__ WinogradMmaBlock() {
#pragma unroll
    for (auto& tile : acc)
#pragma unroll
      for (auto& part : tile)
#pragma unroll
        for (float& value : part) value = 0.f;
  }
  template <int part, int parts>
  __device__ __forceinline__ void multiply(const float* chunk_a, const float* chunk_b) {
    const int lane = threadIdx.x % 32, point = threadIdx.x / 32;
    const float* a = chunk_a + point * kPointA + at_a(lane % 4, lane / 4);
    const float* b = chunk_b + point * kPointB + lane * 4;
    Parts<2> of_a[kColumns];
#pragma unroll
    for (int j = 0; j < kColumns; ++j) of_a[j] = Parts<2>({a[j * 8], a[j * 8 + at_a(4, 0)]});
#pragma unroll
    for (int tile = Shape::template first_of_part<part, parts>(kTiles);
         tile < Shape::template first_of_part<part + 1, parts>(kTiles); ++tile) {
      const float4 words = *reinterpret_cast<const float4*>(b + tile * (16 * kDepth));
      const Parts<4> of_b({words.x, words.y, words.z, words.w});
      auto add = [&](const uint32_t(&part_b)[4], uint32_t(Parts<2>::*part_a)[2]) {
#pragma unroll
        for (int j = 0; j < kColumns; ++j) {
          auto& sums = acc[tile][j];
          MmaTf32::multiply(sums[0], sums[1], sums[2], sums[3], part_b, (of_a[j].*part_a)[0],
                            (of_a[j].*part_a)[1]);
        }
      };
      if constexpr (kInParts) {
        add(of_b.rest, &Parts<2>::head);
        add(of_b.head, &Parts<2>::rest);
      }
      add(of_b.head, &Parts<2>::head);
    }
  }
  // All accumulators to shared memory. The caller synchronises before and after.
  __device__ __forceinline__ void exchange(float* smem) const {
    const int lane = threadIdx.x % 32, row = lane / 4, first = row + row / 2 % 2 * 8;
    float* at = smem + threadIdx.x / 32 * kExchangePoint + lane % 4 * 2 * kExchangePitch;
#pragma unroll
    for (int tile = 0; tile < kTiles; ++tile)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          at[(j * 8 + i % 2) * kExchangePitch + tile * 16 + (i < 2 ? first : first ^ 8)] =
              acc[tile][j][i];
  }

 private:
  // Without parts the head alone, rounded when it was stored. Else as StoredMma3xTf32's, by the bits: the
  // units read the upper 19 of a word. A NaN may come out as zero, and then its rest is a NaN.
  template <int count>
  struct Parts {
    uint32_t head[count], rest[count];
    Parts() = default;
    __device__ __forceinline__ explicit Parts(const float (&values)[count]) {
      // region parts
#pragma unroll
      for (int i = 0; i < count; ++i) {
        head[i] = __float_as_uint(values[i]) + (kInParts ? 0x1000u : 0u);
        if (kInParts) rest[i] = __float_as_uint(values[i] - __uint_as_float(head[i] & 0xffffe000u));
      }
      // end parts
    }
  };
};

}  // namespace duet
