// Winograd F(2x2, 3x3) and its two transposes, float32: the parts that the three passes of a 3x3
// convolution share, with a pooling behind it or without.
//
// A 2x2 tile of outputs needs a 4x4 patch d of inputs. With V = B'dB, U = GgG', both 4x4, the tile
// is A'(U.V)A, so a tile, a channel and a filter cost 16 multiplications, not 36. Summed over
// channels this is 16 matrix products, one a point:
//   forward          M[tile][k]  = sum_c    V[c][tile] U[c][k]     y  = A'MA
//   backward_data    Md[tile][c] = sum_k    E[k][tile] U[k][c]     dx = sum of the overlapping 4x4
//                                                                       patches B Md B'
//   backward_filter  Mf[c][k]    = sum_tile V[tile][c] E[tile][k]  dw = G'Mf G
// with E = A dy A' (' is the transpose). A block keeps all 16 points of a 32 x 64 product in
// registers, so only x, w, y and their gradients ever travel.
//
// Lavin & Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.
#pragma once

#include "kernels/bulk_copy.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

/// What no Winograd kernel can do.
inline std::optional<std::string> winograd_unsupported(const Conv2dProblem& d, Pass) {
  if (auto reason = ungrouped_unsupported(d)) return reason;
  if (d.layout != Layout::kNCHW) return "takes nchw only";
  if (d.r != 3 || d.s != 3) return "takes 3x3 filters only";
  if (d.stride_h != 1 || d.stride_w != 1) return "takes stride 1 only";
  if (d.dilation_h != 1 || d.dilation_w != 1) return "takes dilation 1 only";
  return {};
}

/// A problem and its 2x2 tiles of outputs, numbered image by image in row-major order.
struct WinogradGeometry {
  Conv2dProblem d;
  int tiles_h, tiles_w, tiles, total_tiles;  // of an image, and in all
  int pixels_in;
  FastDivisor by_tiles, by_tiles_w, by_pixels_in, by_w;

  /// Pooling drops an odd last row or column; without, its tile is half empty.
  WinogradGeometry(const Conv2dProblem& problem, bool pool)
      : d(problem),
        tiles_h(pool ? d.p / 2 : ceil_div(d.p, 2)),
        tiles_w(pool ? d.q / 2 : ceil_div(d.q, 2)),
        tiles(tiles_h * tiles_w),
        total_tiles(d.n * tiles),
        pixels_in(d.h * d.w),
        by_tiles(tiles),
        by_tiles_w(tiles_w),
        by_pixels_in(pixels_in),
        by_w(d.w) {}
};

/// A tile of an image.
struct WinogradTile {
  int n, index, row, column;

  __device__ __forceinline__ static WinogradTile at(const WinogradGeometry& g, int number) {
    WinogradTile t;
    g.by_tiles.divmod(number, t.n, t.index);
    g.by_tiles_w.divmod(t.index, t.row, t.column);
    return t;
  }
};

// region input
// d -> B'dB, in place.   B' = [1 0 -1 0; 0 1 1 0; 0 -1 1 0; 0 1 0 -1]
__device__ __forceinline__ void winograd_input(float (&d)[16]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float a = d[j], b = d[4 + j], c = d[8 + j], e = d[12 + j];
    d[j] = a - c, d[4 + j] = b + c, d[8 + j] = c - b, d[12 + j] = b - e;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float a = d[4 * i], b = d[4 * i + 1], c = d[4 * i + 2], e = d[4 * i + 3];
    d[4 * i] = a - c, d[4 * i + 1] = b + c, d[4 * i + 2] = c - b, d[4 * i + 3] = b - e;
  }
}
// end input

// A'mA, in row-major order.   A' = [1 1 1 0; 0 1 -1 -1]
__device__ __forceinline__ float4 winograd_output(const float (&m)[16]) {
  float t[2][4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    t[0][j] = m[j] + m[4 + j] + m[8 + j];
    t[1][j] = m[4 + j] - m[8 + j] - m[12 + j];
  }
  return {t[0][0] + t[0][1] + t[0][2], t[0][1] - t[0][2] - t[0][3], t[1][0] + t[1][1] + t[1][2],
          t[1][1] - t[1][2] - t[1][3]};
}

// The gradient of the 4x4 patch: m -> B m B', in place.
__device__ __forceinline__ void winograd_input_transposed(float (&m)[16]) {
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float a = m[j], b = m[4 + j], c = m[8 + j], e = m[12 + j];
    m[j] = a, m[4 + j] = b - c + e, m[8 + j] = b + c - a, m[12 + j] = -e;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float a = m[4 * i], b = m[4 * i + 1], c = m[4 * i + 2], e = m[4 * i + 3];
    m[4 * i] = a, m[4 * i + 1] = b - c + e, m[4 * i + 2] = b + c - a, m[4 * i + 3] = -e;
  }
}

// The gradient of the 3x3 filter: m -> G'mG.   G' = [1 .5 .5 0; 0 .5 -.5 0; 0 .5 .5 1]
__device__ __forceinline__ void winograd_filter_transposed(const float (&m)[16], float (&dw)[9]) {
  float t[3][4];
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const float sum = 0.5f * (m[4 + j] + m[8 + j]);
    t[0][j] = m[j] + sum, t[1][j] = 0.5f * (m[4 + j] - m[8 + j]), t[2][j] = sum + m[12 + j];
  }
#pragma unroll
  for (int i = 0; i < 3; ++i) {
    const float sum = 0.5f * (t[i][1] + t[i][2]);
    dw[3 * i] = t[i][0] + sum, dw[3 * i + 1] = 0.5f * (t[i][1] - t[i][2]),
           dw[3 * i + 2] = sum + t[i][3];
  }
}

// Where a tile's 4x4 patch lies in x, and which of its elements are inside the image (bit 4*i + j).
struct WinogradPatch {
  int base;
  uint32_t inside;

  __device__ __forceinline__ static WinogradPatch at(int image_offset, int h, int w, int height,
                                                     int width) {
    uint32_t rows = 0, cols = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      rows |= uint32_t(h + i) < uint32_t(height) ? 0xfu << 4 * i : 0u;
      cols |= uint32_t(w + i) < uint32_t(width) ? 0x1111u << i : 0u;
    }
    return {image_offset + h * width + w, rows & cols};
  }
  // kShared: x is shared memory, so a plain load; else the read-only path.
  template <bool kShared>
  __device__ __forceinline__ void load(const float* x, int offset, int width,
                                       float (&d)[16]) const {
    const float* from = x + (base + offset);
    auto read = [](const float* at) { return kShared ? *at : __ldg(at); };
#pragma unroll
    for (int i = 0; i < 16; ++i) d[i] = inside >> i & 1 ? read(from + i / 4 * width + i % 4) : 0.f;
  }
};

}  // namespace duet
