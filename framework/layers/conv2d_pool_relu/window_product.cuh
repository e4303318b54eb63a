// The forward product of conv2d_pool_relu, whatever multiplies: rows run window by window, so that a
// thread holds whole windows and pools them in registers.
#pragma once

#include "kernels/product.cuh"
#include "kernels/product_epilogues.cuh"
#include "layers/conv2d/ladder/conv2d_gathers.cuh"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {

// acc[i] to acc[i + 3] of a thread are the four elements of a window (Tile::kWindowStride).
template <Layout kLayout, class Tile, class T, class GatherA, class GatherB>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kMinBlocks)
    conv2d_pool_relu_forward_kernel(const __grid_constant__ GatherA a,
                                    const __grid_constant__ GatherB b, int filters, int depth,
                                    const float* __restrict__ bias, T* __restrict__ y,
                                    void* __restrict__ argmax) {
  wait_for_primary();
  // The codes of a run of filters: half a byte each.
  using Codes = std::conditional_t<Tile::kRun == 4, uint16_t, uint8_t>;
  static_assert(Tile::kRun == 4 || Tile::kRun == 2);
  constexpr int kRun = Tile::kRun;
  auto& smem = product_smem<ProductSmem<Tile, GatherA, GatherB>>();
  const int m0 = blockIdx.x * Tile::kM, n0 = blockIdx.y * Tile::kN;
  float acc[Tile::kThreadM][Tile::kThreadN];
  compute_product<Tile, false>(a, b, m0, n0, 0, depth, smem, acc, nullptr);

  const ConvGeometry& g = a.reader.g;
  const int x = Tile::thread_x();
#pragma unroll
  for (int i = 0; i < Tile::kThreadM; i += 4) {
    const int number = WindowOrder<Tile::kWindowStride>::window(m0 + Tile::row(i));
    int n, window;
    g.by_windows.divmod(number, n, window);
    if (n >= g.d.n) continue;
#pragma unroll
    for (int j0 = 0; j0 < Tile::kThreadN; j0 += kRun) {
      const int k0 = n0 + Tile::col(j0, x);
      if (k0 >= filters) continue;
      float out[kRun];
      uint32_t codes = 0;
#pragma unroll
      for (int e = 0; e < kRun; ++e) {
        const float shift = bias != nullptr && k0 + e < filters ? __ldg(bias + k0 + e) : 0.f;
        const PooledValue pooled =
            pool_window(acc[i][j0 + e] + shift, acc[i + 1][j0 + e] + shift,
                        acc[i + 2][j0 + e] + shift, acc[i + 3][j0 + e] + shift);
        out[e] = pooled.value;
        codes |= pooled.code << 4 * e;
      }
      if constexpr (kLayout == Layout::kNHWC) {
        store_run(y + size_t(number) * filters + k0, out, filters - k0, filters % kRun == 0);
      } else {
        T* at = y + (size_t(n) * filters + k0) * g.windows + window;
#pragma unroll
        for (int e = 0; e < kRun; ++e)
          if (k0 + e < filters) at[size_t(e) * g.windows] = T(out[e]);
      }
      // A part of a word: k0 is a multiple of kRun.
      const size_t word = (size_t(n) * argmax_groups(filters) + k0 / 8) * g.windows + window;
      static_cast<Codes*>(argmax)[word * (8 / kRun) + k0 % 8 / kRun] = Codes(codes);
    }
  }
}

/// y (in kLayout) and argmax for `filters` filters; `rows` as the gathers number them.
template <Layout kLayout, class Tile, class T, class GatherA, class GatherB>
void launch_window_product(const GatherA& a, const GatherB& b, int rows, int filters, int depth,
                           const float* bias, T* y, void* argmax, cudaStream_t stream) {
  const dim3 grid(ceil_div(rows, Tile::kM), ceil_div(filters, Tile::kN));
  launch_product_kernel<ProductSmem<Tile, GatherA, GatherB>>(
      conv2d_pool_relu_forward_kernel<kLayout, Tile, T, GatherA, GatherB>, grid, Tile::kThreads,
      stream, a, b, filters, depth, bias, y, argmax);
}

}  // namespace duet
