// What a block of a Winograd kernel multiplies: 16 small matrix products, one a point.
#pragma once

#include <cooperative_groups.h>

#include "layers/conv2d/winograd/winograd.cuh"

namespace duet {

// Where a product has too few blocks for the GPU, its depth is cut for the blocks of a cluster
// (2, 4 or 8). Each multiplies some of the chunks and transforms what it has; then each adds what
// all have for some of the results. (Added in the Winograd domain they would be four times as many,
// and shared memory of other blocks is slow.)
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
template <bool kCluster>
struct WinogradShare {
  int blocks = 1, rank = 0;
  int chunks, first_chunk = 0;  // of this block

  __device__ __forceinline__ explicit WinogradShare(int all_chunks) : chunks(all_chunks) {
    if constexpr (kCluster) {
      const auto cluster = cooperative_groups::this_cluster();
      blocks = int(cluster.num_blocks()), rank = int(cluster.block_rank());
      chunks = ceil_div(all_chunks, blocks);
      first_chunk = rank * chunks;
      chunks = min(chunks, all_chunks - first_chunk);
    }
  }
  // Number of the product: blocks of a cluster are neighbours along x.
  __device__ __forceinline__ int product() const { return int(blockIdx.x) / blocks; }

  // The sum of what all blocks have at `at` of their shared memory, in order. Before the first
  // comes a sync(), and after the last.
  template <class T>
  __device__ __forceinline__ T sum(T* at) const {
    const auto cluster = cooperative_groups::this_cluster();
    T total = *cluster.map_shared_rank(at, 0);
#pragma unroll
    for (int from = 1; from < kMost; ++from)
      if (from < blocks) add(total, *cluster.map_shared_rank(at, from));
    return total;
  }
  __device__ __forceinline__ static void sync() { cooperative_groups::this_cluster().sync(); }

 private:
  static constexpr int kMost = 8;
  __device__ __forceinline__ static void add(float& total, float v) { total += v; }
  __device__ __forceinline__ static void add(float4& total, const float4& v) {
    total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
  }
};
#else  // an older GPU has no clusters and, without bulk copies, does not run these kernels
template <bool kCluster>
struct WinogradShare {
  int blocks = 1, rank = 0, chunks, first_chunk = 0;

  __device__ explicit WinogradShare(int all_chunks) : chunks(all_chunks) {}
  __device__ int product() const { return int(blockIdx.x); }
  template <class T>
  __device__ T sum(T* at) const {
    __trap();
    return *at;
  }
  __device__ static void sync() { __trap(); }
};
#endif

// What all blocks have: 16 products of kA x kB, 8 deep at a time, by 256 threads or 512. kA is 32, or 36;
// the eight warps of 256 threads take turns in what the last four rows of A need beside the
// multiplication. (A ninth warp for it would leave 168 registers a thread.)
template <int groups, int rows, int columns, int threads>
struct WinogradBlockShape {
  static constexpr int kGroups = groups, kDepth = 8, kA = rows, kB = columns;
  static constexpr int kThreads = threads;
  static_assert(threads == 256 ? kA == 32 || kA == 36 : threads == 512 && kA == 32);
  // The exchange: every point of every product in shared memory, [group][point][kA][kB + 4].
  static constexpr int kExchangePitch = kB + 4, kExchangePoint = kA * kExchangePitch,
                       kExchangeGroup = 16 * kExchangePoint;
  static constexpr int kExchangeFloats = groups * kExchangeGroup;

  // An element of a chunk of A, all its points. Each of 256 threads prepares one, of 512 one of every
  // second chunk; where kA is 36 a thread of the warp whose turn it is prepares another.
  struct Element {
    int row, depth;
  };
  __device__ __forceinline__ static Element element() {
    return {int(threadIdx.x % 32), int(threadIdx.x / 32 % 8)};
  }
  static constexpr int kTurns = threads / 256;
  __device__ __forceinline__ static bool prepares(int chunk) {
    return kTurns == 1 || int(threadIdx.x / 256) == chunk % kTurns;
  }
  // The first chunk that this thread prepares.
  __device__ __forceinline__ static int first_prepared() { return threadIdx.x / 256; }
  __device__ __forceinline__ static Element extra_element() {
    return {int(32 + threadIdx.x % 4), int(threadIdx.x % 32 / 4)};
  }
  __device__ __forceinline__ static bool prepares_extra(int chunk) {
    return kA > 32 && threadIdx.x / 32 == chunk % 8;
  }
  // A chunk is multiplied in parts, of so many steps in all.
  template <int part, int parts>
  __host__ __device__ static constexpr int first_of_part(int steps) {
    return (steps * part + parts - 1) / parts;
  }
  // The sums of row `a` and columns [b, b + 4) after the exchange, all points.
  __device__ __forceinline__ static void collect(const float* smem, int a, int b,
                                                 float (&m)[4][16]) {
    const float* at = smem + a * kExchangePitch + b;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      float4 v = *reinterpret_cast<const float4*>(at + i * kExchangePoint);
#pragma unroll
      for (int other = 1; other < groups; ++other) {
        const float4 o =
            *reinterpret_cast<const float4*>(at + i * kExchangePoint + other * kExchangeGroup);
        v.x += o.x, v.y += o.y, v.z += o.z, v.w += o.w;
      }
      m[0][i] = v.x, m[1][i] = v.y, m[2][i] = v.z, m[3][i] = v.w;
    }
  }
};

// By FMA, with kA/4 x 16 accumulators a thread: eight warps are few, but a smaller tile a thread would
// load more than one float from shared memory for four FFMAs, which is what the SM can feed. With
// kGroups = 2 each half of the block takes half of every 8-deep chunk; the halves are added in the
// exchange. Chunks in shared memory: A [depth][point][kA], B [depth][point][kB].
template <int groups, int rows = 32>
struct WinogradBlock : WinogradBlockShape<groups, rows, 64 / groups, 256> {
  using Shape = WinogradBlockShape<groups, rows, 64 / groups, 256>;
  using Shape::kA, Shape::kB, Shape::kDepth, Shape::kThreads, Shape::kExchangePitch;
  static constexpr int kRows = kA / 4;
  // Floats a depth; the four extra let a warp store 8 depths x 4 rows to 32 different banks.
  static constexpr int kPitchA = 16 * kA + 4, kPitchB = 16 * kB + 4;
  static constexpr int kChunkA = kDepth * kPitchA, kChunkB = kDepth * kPitchB;
  static constexpr int kPointA = kA, kPointB = kB;  // floats between the points of an element
  static constexpr int kThreadsX = kB / 16, kThreadsPerPoint = 4 * kThreadsX;
  // What a chunk takes, in its multiplications a point at 15.5 a nanosecond on an H200, and with the
  // transforms and barriers beside them.
  static constexpr int64_t kChunkCost = kA * kB * kDepth + 10000;
  static constexpr const char* kText = "";

  float acc[kRows][16];
  int group, point, ty, tx;

  __host__ __device__ static constexpr int at_a(int depth, int row) {
    return depth * kPitchA + row;
  }
  __host__ __device__ static constexpr int at_b(int depth, int column) {
    return depth * kPitchB + column;
  }

  __device__ __forceinline__ WinogradBlock() {
    const int t = threadIdx.x % (kThreads / groups);
    group = threadIdx.x / (kThreads / groups);
    point = t / kThreadsPerPoint;
    ty = t % kThreadsPerPoint / kThreadsX;
    tx = t % kThreadsX;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < 16; ++j) acc[i][j] = 0.f;
  }
  // The i-th row of this thread's accumulators: two runs of four, then one.
  __device__ __forceinline__ int row_of(int i) const {
    return i < 8 ? i / 4 * 16 + ty * 4 + i % 4 : 32 + ty;
  }
  // Some depths of this thread's group.
  template <int part, int parts>
  __device__ __forceinline__ void multiply(const float* chunk_a, const float* chunk_b) {
    constexpr int kGroupDepth = kDepth / groups;
    const float* a = chunk_a + group * kGroupDepth * kPitchA + point * kA;
    const float* b = chunk_b + group * kGroupDepth * kPitchB + point * kB + tx * 4;
#pragma unroll
    for (int d = Shape::template first_of_part<part, parts>(kGroupDepth);
         d < Shape::template first_of_part<part + 1, parts>(kGroupDepth); ++d) {
      float fa[kRows], fb[16];
#pragma unroll
      for (int i = 0; i < 8; i += 4)
        *reinterpret_cast<float4*>(&fa[i]) =
            *reinterpret_cast<const float4*>(a + d * kPitchA + row_of(i));
      if constexpr (kRows == 9) fa[8] = a[d * kPitchA + row_of(8)];
#pragma unroll
      for (int j = 0; j < 16; j += 4)
        *reinterpret_cast<float4*>(&fb[j]) =
            *reinterpret_cast<const float4*>(b + d * kPitchB + j / 4 * (kB / 4));
#pragma unroll
      for (int i = 0; i < kRows; ++i)
#pragma unroll
        for (int j = 0; j < 16; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
    }
  }
  // All accumulators to shared memory. The caller synchronises before and after.
  __device__ __forceinline__ void exchange(float* smem) const {
    float* at = smem + group * Shape::kExchangeGroup + point * Shape::kExchangePoint + tx * 4;
#pragma unroll
    for (int i = 0; i < kRows; ++i)
#pragma unroll
      for (int j = 0; j < 16; j += 4)
        *reinterpret_cast<float4*>(at + row_of(i) * kExchangePitch + j / 4 * (kB / 4)) =
            make_float4(acc[i][j], acc[i][j + 1], acc[i][j + 2], acc[i][j + 3]);
  }
};

// Leaves the points of an element of A in a chunk, or of B.
template <class Block>
__device__ __forceinline__ void store_a(float* chunk, int depth, int row,
                                        const float (&points)[16]) {
  float* at = chunk + Block::at_a(depth, row);
#pragma unroll
  for (int i = 0; i < 16; ++i) at[i * Block::kPointA] = points[i];
}
template <class Block>
__device__ __forceinline__ void store_b(float* chunk, int depth, int column,
                                        const float (&points)[16]) {
  float* at = chunk + Block::at_b(depth, column);
#pragma unroll
  for (int i = 0; i < 16; ++i) at[i * Block::kPointB] = points[i];
}

}  // namespace duet
