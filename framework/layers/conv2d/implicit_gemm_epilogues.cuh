// What happens to the accumulators of implicit_gemm.cuh: how they reach memory.
#pragma once

#include <functional>

#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d/implicit_gemm.cuh"

namespace duet {

// Four values to row-major memory; whole when aligned and inside, else one by one.
template <class T>
__device__ __forceinline__ void store4(T* at, const float (&v)[4], int valid, bool aligned) {
  if (aligned && valid >= 4) {
    store(at, Vector<float, 4>{v[0], v[1], v[2], v[3]});
  } else {
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (e < valid) at[e] = T(v[e]);
  }
}

// out[row_of(m)][n] (+ bias[n]), n fastest.
template <class Tile, class T, class RowOf = std::identity>
__device__ __forceinline__ void store_row_major(const float (&acc)[Tile::kThreadM][Tile::kThreadN],
                                                int m0, int n0, int m_end, int n_end,
                                                const float* __restrict__ bias, T* __restrict__ out,
                                                RowOf row_of = {}) {
  const int tx = threadIdx.x % Tile::kThreadsX, ty = threadIdx.x / Tile::kThreadsX;
  const bool aligned = n_end % 4 == 0;
#pragma unroll
  for (int j0 = 0; j0 < Tile::kThreadN; j0 += 4) {
    const int n = n0 + gemm_col<Tile>(j0, tx);
    float b[4] = {};
    if (bias != nullptr)
#pragma unroll
      for (int e = 0; e < 4; ++e) b[e] = n + e < n_end ? __ldg(bias + n + e) : 0.f;
#pragma unroll
    for (int i = 0; i < Tile::kThreadM; ++i) {
      const int m = m0 + gemm_row(i, ty, Tile::kM);
      if (m >= m_end) continue;
      const float v[4] = {acc[i][j0] + b[0], acc[i][j0 + 1] + b[1], acc[i][j0 + 2] + b[2],
                          acc[i][j0 + 3] + b[3]};
      store4(out + size_t(row_of(m)) * n_end + n, v, n_end - n, aligned);
    }
  }
}

// out[image][n][pixel] (+ bias[n]), where locate(m, image, pixel) says where row m lies: through
// shared memory, so that lanes run along pixels.
template <class Tile, class T, class Locate>
__device__ __forceinline__ void store_pixel_major(
    const float (&acc)[Tile::kThreadM][Tile::kThreadN], int m0, int n0, int m_end, int n_end,
    int pixels, const Locate& locate, const float* __restrict__ bias, T* __restrict__ out,
    float* smem) {
  const int tx = threadIdx.x % Tile::kThreadsX, ty = threadIdx.x / Tile::kThreadsX;
  constexpr int kPitch = Tile::kPitchM;
  static_assert(Tile::kThreadsX * kPitch <= 2 * Tile::kStageFloats);
  static_assert(Tile::kThreads % Tile::kM == 0 || Tile::kM % Tile::kThreads == 0);
#pragma unroll
  for (int j = 0; j < Tile::kThreadN; ++j) {
    float* slab = smem + tx * kPitch;
#pragma unroll
    for (int i = 0; i < Tile::kThreadM; i += 4)
      *reinterpret_cast<float4*>(slab + gemm_row(i, ty, Tile::kM)) =
          make_float4(acc[i][j], acc[i + 1][j], acc[i + 2][j], acc[i + 3][j]);
    __syncthreads();
    for (int row = threadIdx.x % Tile::kM; row < Tile::kM; row += Tile::kThreads) {
      const int m = m0 + row;
      if (m >= m_end) break;
      int image, pixel;
      locate(m, image, pixel);
      for (int x = threadIdx.x / Tile::kM; x < Tile::kThreadsX;
           x += (Tile::kThreads + Tile::kM - 1) / Tile::kM) {
        const int n = n0 + gemm_col<Tile>(j, x);
        if (n < n_end)
          out[(size_t(image) * n_end + n) * pixels + pixel] =
              T(smem[x * kPitch + row] + (bias != nullptr ? __ldg(bias + n) : 0.f));
      }
    }
    __syncthreads();
  }
}

}  // namespace duet
