// What happens to the accumulators of a product (kernels/product.cuh): how they reach memory.
#pragma once

#include <functional>

#include "core/tensor.h"
#include "kernels/integers.cuh"
#include "kernels/vector.cuh"

namespace duet {

// V values to row-major memory; whole when aligned and inside, else one by one.
template <int V, class T>
__device__ __forceinline__ void store_run(T* at, const float (&v)[V], int valid, bool aligned) {
  if (aligned && valid >= V) {
    Vector<float, V> whole;
#pragma unroll
    for (int e = 0; e < V; ++e) whole.v[e] = v[e];
    store(at, whole);
  } else {
#pragma unroll
    for (int e = 0; e < V; ++e)
      if (e < valid) at[e] = T(v[e]);
  }
}

// out[row_of(m)][n] = function(sum (+ bias[n])), n fastest.
template <class Tile, class Function = std::identity, class T, class RowOf = std::identity>
__device__ __forceinline__ void store_row_major(const float (&acc)[Tile::kThreadM][Tile::kThreadN],
                                                int m0, int n0, int m_end, int n_end,
                                                const float* __restrict__ bias, T* __restrict__ out,
                                                RowOf row_of = {}) {
  constexpr int kRun = Tile::kRun;
  const int x = Tile::thread_x();
  const bool aligned = n_end % kRun == 0;
#pragma unroll
  for (int j0 = 0; j0 < Tile::kThreadN; j0 += kRun) {
    const int n = n0 + Tile::col(j0, x);
    float b[kRun] = {};
    if (bias != nullptr)
#pragma unroll
      for (int e = 0; e < kRun; ++e) b[e] = n + e < n_end ? __ldg(bias + n + e) : 0.f;
#pragma unroll
    for (int i = 0; i < Tile::kThreadM; ++i) {
      const int m = m0 + Tile::row(i);
      if (m >= m_end) continue;
      float v[kRun];
#pragma unroll
      for (int e = 0; e < kRun; ++e) v[e] = Function()(acc[i][j0 + e] + b[e]);
      store_run(out + size_t(row_of(m)) * n_end + n, v, n_end - n, aligned);
    }
  }
}

// out[image][n][pixel] = function(sum (+ bias[n])), where locate(m, image, pixel) says where row m lies: through
// shared memory (`scratch`, kThreadsX rows), so that lanes run along pixels.
template <class Tile, int scratch_floats, class Function = std::identity, class T, class Locate>
__device__ __forceinline__ void store_pixel_major(
    const float (&acc)[Tile::kThreadM][Tile::kThreadN], int m0, int n0, int m_end, int n_end,
    int pixels, const Locate& locate, const float* __restrict__ bias, T* __restrict__ out,
    float* scratch) {
  constexpr int kPitch = Tile::kM + 4 * (4 / Tile::kRun);
  static_assert(Tile::kThreadsX * kPitch <= scratch_floats);
  static_assert(Tile::kThreads % Tile::kM == 0 || Tile::kM % Tile::kThreads == 0);
#pragma unroll
  for (int j = 0; j < Tile::kThreadN; ++j) {
    float* slab = scratch + Tile::thread_x() * kPitch;
#pragma unroll
    for (int i = 0; i < Tile::kThreadM; i += Tile::kRowRun) {
      Vector<float, Tile::kRowRun> rows;
#pragma unroll
      for (int e = 0; e < Tile::kRowRun; ++e) rows.v[e] = acc[i + e][j];
      store(slab + Tile::row(i), rows);
    }
    __syncthreads();
    for (int row = threadIdx.x % Tile::kM; row < Tile::kM; row += Tile::kThreads) {
      const int m = m0 + row;
      if (m >= m_end) break;
      int image, pixel;
      locate(m, image, pixel);
      for (int x = threadIdx.x / Tile::kM; x < Tile::kThreadsX;
           x += (Tile::kThreads + Tile::kM - 1) / Tile::kM) {
        const int n = n0 + Tile::col(j, x);
        if (n < n_end)
          out[(size_t(image) * n_end + n) * pixels + pixel] =
              T(Function()(scratch[x * kPitch + row] + (bias != nullptr ? __ldg(bias + n) : 0.f)));
      }
    }
    __syncthreads();
  }
}

}  // namespace duet
