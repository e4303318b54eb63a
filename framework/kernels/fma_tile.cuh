// A tile of a product (kernels/product.cuh) that the float32 units multiply by FMA.
#pragma once

#include "kernels/vector.cuh"

namespace duet {

/// A thread has 8 x thread_n accumulators, in runs of four rows and four columns.
template <int block_m, int block_n, int thread_n = 8>
struct FmaTile {
  static constexpr int kM = block_m, kN = block_n, kK = 8;
  static constexpr int kThreadM = 8, kThreadN = thread_n;
  static constexpr int kRowRun = 4, kRun = 4, kSpan = 1, kStages = 2;
  template <class T, int count>
  static constexpr bool kCopies = false;
  static constexpr int kThreadsX = kN / kThreadN, kThreads = (kM / kThreadM) * kThreadsX;
  // Blocks a multiprocessor, which caps the registers: 128 a thread, but 168 where 128 would spill.
  static constexpr int kMinBlocks = kThreads == 256 ? 2 : kThreadN == 8 ? 3 : 512 / kThreads;

  /// Four neighbouring rows are the elements of one window where rows run window by window.
  static constexpr int kWindowStride = 1;

  __device__ __forceinline__ static int thread_x() { return threadIdx.x % kThreadsX; }
  __device__ __forceinline__ static int thread_y() { return threadIdx.x / kThreadsX; }
  __device__ __forceinline__ static int row(int i) {
    return (i / 4) * (kM / 2) + thread_y() * 4 + i % 4;
  }
  __device__ __forceinline__ static int col(int j, int x) {
    return kThreadN == 8 ? (j / 4) * (kN / 2) + x * 4 + j % 4 : x * 4 + j;
  }

  /// [k][row] in float.
  template <int rows, bool row_lanes, class = float>
  struct Slice {
    using Element = float;
    // Rows are padded by four floats: k-lane stores (8 k x 4 rows a warp) then hit 32 banks.
    static constexpr int kPitch = rows + 4, kElements = kK * kPitch;

    template <class T, int V>
    __device__ __forceinline__ static void put(float* slice, int row, int k,
                                               const Vector<T, V>& values) {
      float* at = slice + k * kPitch + row;
      const Vector<float, V> wide = widened(values);
      if constexpr (row_lanes) {
        static_assert(V == 1 || V == 4);
        *reinterpret_cast<Vector<float, V>*>(at) = wide;
      } else {
#pragma unroll
        for (int e = 0; e < V; ++e) at[e * kPitch] = wide.v[e];
      }
    }
  };

  template <bool row_lanes_a, bool row_lanes_b>
  __device__ __forceinline__ static void multiply(const float* slice_a, const float* slice_b,
                                                  float (&acc)[kThreadM][kThreadN]) {
    constexpr int kPitchA = Slice<kM, row_lanes_a>::kPitch;
    constexpr int kPitchB = Slice<kN, row_lanes_b>::kPitch;
    const float* a = slice_a + thread_y() * 4;
    const float* b = slice_b + thread_x() * 4;
    // region multiply
#pragma unroll
    for (int k = 0; k < kK; ++k) {
      float fa[kThreadM], fb[kThreadN];
#pragma unroll
      for (int i = 0; i < kThreadM; i += 4)
        *reinterpret_cast<float4*>(&fa[i]) =
            *reinterpret_cast<const float4*>(a + k * kPitchA + (i / 4) * (kM / 2));
#pragma unroll
      for (int j = 0; j < kThreadN; j += 4)
        *reinterpret_cast<float4*>(&fb[j]) =
            *reinterpret_cast<const float4*>(b + k * kPitchB + (j / 4) * (kN / 2));
#pragma unroll
      for (int i = 0; i < kThreadM; ++i)
#pragma unroll
        for (int j = 0; j < kThreadN; ++j) acc[i][j] = fmaf(fa[i], fb[j], acc[i][j]);
    }
    // end multiply
  }
};

/// The tiles of a product, the same sizes for all that multiplies.
struct FmaTiles {
  using Large = FmaTile<128, 128>;
  using Medium = FmaTile<128, 64>;
  using Small = FmaTile<64, 64, 4>;
  using Narrow = FmaTile<64, 32, 4>;
  static constexpr const char* kText = "";
};

}  // namespace duet
