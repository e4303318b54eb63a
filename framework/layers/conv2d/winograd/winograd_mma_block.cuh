// The 16 products of a Winograd block on tensor cores, float32 in parts: each as three of tf32
// (kernels/mma_tile.cuh, kernels/wgmma_split.cuh).
#pragma once

#include "kernels/mma_tile.cuh"
#include "layers/conv2d/winograd/winograd_block.cuh"

namespace duet {

// Each warp has a point, or of 256 threads two, and so both its operands to itself: what it takes apart,
// no other warp needs. The instruction's rows are columns of B, its columns rows of A.
//
// Chunks in shared memory: A [depth][point][32], depths 8 banks apart and 4 to 7 another four, so that
// the 4 depths x 8 rows of a fragment lie in 32 banks, as do 8 depths x 4 rows of a warp that stores.
// B [point][16 columns][lane][4], a lane's four words of a fragment beside each other. For those that
// store 8 depths x 4 columns the two words of a depth change places with every second pair of columns:
// rows of the instruction are numbered so.
template <int threads>
struct WinogradMmaBlock : WinogradBlockShape<1, 32, 64, threads> {
  using Shape = WinogradBlockShape<1, 32, 64, threads>;
  using Shape::kA, Shape::kB, Shape::kDepth, Shape::kThreads, Shape::kExchangePitch,
      Shape::kExchangePoint;
  static constexpr int kPitchA = 16 * kA + 8;
  static constexpr int kChunkA = kDepth * kPitchA, kChunkB = 16 * kDepth * kB;
  static constexpr int kPointA = kA, kPointB = kDepth * kB;
  static constexpr int64_t kChunkCost = 13000;
  static constexpr const char* kText = ", mma 3xtf32";

  __host__ __device__ static constexpr int at_a(int depth, int row) {
    return depth * kPitchA + depth / 4 * 4 + row;
  }
  __host__ __device__ static constexpr int at_b(int depth, int column) {
    const int lane = column % 8 * 4 + depth % 4, upper = column / 8 % 2 ^ column / 2 % 2;
    return column / 16 * 128 + lane * 4 + depth / 4 * 2 + upper;
  }

  static constexpr int kPoints = 16 * 32 / threads, kTiles = kB / 16, kUnits = kPoints * kTiles,
                       kColumns = kA / 8;
  float acc[kUnits][kColumns][4];

  __device__ __forceinline__ WinogradMmaBlock() {
#pragma unroll
    for (auto& unit : acc)
#pragma unroll
      for (auto& tile : unit)
#pragma unroll
        for (float& value : tile) value = 0.f;
  }
  template <int part, int parts>
  __device__ __forceinline__ void multiply(const float* chunk_a, const float* chunk_b) {
    constexpr int kFirst = Shape::template first_of_part<part, parts>(kUnits),
                  kLast = Shape::template first_of_part<part + 1, parts>(kUnits);
    const int lane = threadIdx.x % 32;
    const float* a = chunk_a + first_point() * kPointA + at_a(lane % 4, lane / 4);
    const float* b = chunk_b + first_point() * kPointB + lane * 4;
#pragma unroll
    for (int point = kFirst / kTiles; point * kTiles < kLast; ++point) {
      Parts<2> of_a[kColumns];
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float* at = a + point * kPointA + j * 8;
        of_a[j] = Parts<2>({at[0], at[at_a(4, 0)]});
      }
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const int unit = point * kTiles + tile;
        if (unit < kFirst || unit >= kLast) continue;
        const float4 words =
            *reinterpret_cast<const float4*>(b + point * kPointB + tile * (16 * kDepth));
        const Parts<4> of_b({words.x, words.y, words.z, words.w});
        auto& sums = acc[unit];
        auto add = [&](const uint32_t(&part_b)[4], uint32_t(Parts<2>::*part_a)[2]) {
#pragma unroll
          for (int j = 0; j < kColumns; ++j)
            MmaTf32::multiply(sums[j][0], sums[j][1], sums[j][2], sums[j][3], part_b,
                              (of_a[j].*part_a)[0], (of_a[j].*part_a)[1]);
        };
        add(of_b.rest, &Parts<2>::head);
        add(of_b.head, &Parts<2>::rest);
        add(of_b.head, &Parts<2>::head);
      }
    }
  }
  // All accumulators to shared memory. The caller synchronises before and after.
  __device__ __forceinline__ void exchange(float* smem) const {
    const int lane = threadIdx.x % 32, row = lane / 4, first = row + row / 2 % 2 * 8;
    float* at = smem + first_point() * kExchangePoint + lane % 4 * 2 * kExchangePitch;
#pragma unroll
    for (int unit = 0; unit < kUnits; ++unit)
#pragma unroll
      for (int j = 0; j < kColumns; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          at[unit / kTiles * kExchangePoint + (j * 8 + i % 2) * kExchangePitch +
             unit % kTiles * 16 + (i < 2 ? first : first ^ 8)] = acc[unit][j][i];
  }

 private:
  // As StoredMma3xTf32's, by the bits: the units read the upper 19 of a word. A NaN may come out as zero, and
  // then its rest is a NaN.
  template <int count>
  struct Parts {
    uint32_t head[count], rest[count];
    Parts() = default;
    __device__ __forceinline__ explicit Parts(const float (&values)[count]) {
      // region parts
#pragma unroll
      for (int i = 0; i < count; ++i) {
        head[i] = __float_as_uint(values[i]) + 0x1000u;
        rest[i] = __float_as_uint(values[i] - __uint_as_float(head[i] & 0xffffe000u));
      }
      // end parts
    }
  };
  __device__ __forceinline__ static int first_point() { return threadIdx.x / 32 * kPoints; }
};

}  // namespace duet
