// The filters of a Winograd convolution, transformed once a call into the workspace.
#pragma once

#include "device/launch.h"
#include "layers/conv2d/winograd/winograd_block.cuh"

namespace duet {

// U from filters, by blocks of columns chunks of B as a block multiplies them, so that each is one run of
// memory: (column, depth) = (k, c) forward and (c, k) backward_data; zero beyond the real sizes.
// `flipped` filters are turned by 180 degrees.
template <class Block>
__global__ void __launch_bounds__(128)
    winograd_filter_kernel(const float* __restrict__ w, int columns, int depth, int depth_padded,
                           int column_stride, int depth_stride, bool flipped,
                           float* __restrict__ u) {
  wait_for_primary();
  let_secondary_start();  // it waits where it first reads filters
  const int a = blockIdx.x * blockDim.x + threadIdx.x, b = blockIdx.y;
  if (a >= round_up(columns, Block::kB)) return;
  float g[3][3] = {};
  if (a < columns && b < depth) {
    const float* at = w + size_t(a) * column_stride + size_t(b) * depth_stride;
#pragma unroll
    for (int i = 0; i < 9; ++i) g[i / 3][i % 3] = __ldg(at + (flipped ? 8 - i : i));
  }
  float t[4][3];
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const float even = 0.5f * (g[0][j] + g[2][j]), odd = 0.5f * g[1][j];
    t[0][j] = g[0][j], t[1][j] = even + odd, t[2][j] = even - odd, t[3][j] = g[2][j];
  }
  float points[16];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float even = 0.5f * (t[i][0] + t[i][2]), odd = 0.5f * t[i][1];
    points[4 * i] = t[i][0], points[4 * i + 1] = even + odd, points[4 * i + 2] = even - odd,
               points[4 * i + 3] = t[i][2];
  }
  const int chunk = a / Block::kB * (depth_padded / Block::kDepth) + b / Block::kDepth;
  store_b<Block>(u + size_t(chunk) * Block::kChunkB, b % Block::kDepth, a % Block::kB, points);
}

/// Filters as the products of a pass want them: `columns` of `depth` 3x3 filters each.
struct WinogradFilters {
  const float* w;
  int columns, depth, column_stride, depth_stride;
  bool flipped;

  static WinogradFilters of_forward(const float* w, const Conv2dProblem& d) {
    return {w, d.k, d.c, d.c * 9, 9, false};
  }
  /// For the sum of overlapping patches.
  static WinogradFilters of_backward_data(const float* w, const Conv2dProblem& d) {
    return {w, d.c, d.k, 9, d.c * 9, false};
  }
  /// For dx as a convolution of dy.
  static WinogradFilters of_transposed(const float* w, const Conv2dProblem& d) {
    return {w, d.c, d.k, 9, d.c * 9, true};
  }
};

/// Bytes of transformed filters, columns and depth rounded up to whole blocks and chunks.
template <class Block>
size_t winograd_filter_bytes(int columns, int depth) {
  return sizeof(float) * Block::kChunkB * ceil_div(columns, Block::kB) *
         ceil_div(depth, Block::kDepth);
}

template <class Block>
void launch_winograd_filters(const WinogradFilters& f, float* u, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const int depth_padded = round_up(f.depth, Block::kDepth);
  const dim3 grid(ceil_div(round_up(f.columns, Block::kB), kThreads), depth_padded);
  launch_following({grid, kThreads, 0, stream}, winograd_filter_kernel<Block>, f.w, f.columns,
                   f.depth, depth_padded, f.column_stride, f.depth_stride, f.flipped, u);
}

}  // namespace duet
