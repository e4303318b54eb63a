// How Winograd's backward passes begin: a tile's four output gradients on their way into the
// Winograd domain, E = A dy A'. Columns of A: (1, 1, 1, 0) for the upper or left element, (0, 1,
// -1, -1) for the other.
#pragma once

#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d/winograd/winograd.cuh"

namespace duet {

// Behind a 2x2 pooling one element of a tile has the gradient of its window, which is 9 of 16
// points without arithmetic.
struct PooledGradient {
  static constexpr bool kPool = true;
  const float* __restrict__ dy;
  const uint32_t* __restrict__ argmax;

  // What is loaded of a tile of filter k; nothing where it does not exist.
  struct Tile {
    float dy = 0.f;
    uint32_t word = ~0u;

    __device__ __forceinline__ uint32_t code(int k) const { return word >> (k % 8 * 4) & 15; }
    __device__ __forceinline__ float sum(int k) const { return code(k) < 4 ? dy : 0.f; }
    __device__ __forceinline__ void transform(int k, float (&e)[16]) const {
      const uint32_t at = code(k);
      const float v = at < 4 ? dy : 0.f;
      const bool low = at & 2, right = at & 1;
      const float row[4] = {low ? 0.f : v, v, low ? -v : v, low ? -v : 0.f};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        e[4 * i] = right ? 0.f : row[i];
        e[4 * i + 1] = row[i];
        e[4 * i + 2] = right ? -row[i] : row[i];
        e[4 * i + 3] = right ? -row[i] : 0.f;
      }
    }
  };

  __device__ __forceinline__ Tile load(const WinogradGeometry& g, const WinogradTile& t,
                                       int k) const {
    return {__ldg(dy + (size_t(t.n) * g.d.k + k) * g.tiles + t.index),
            __ldg(argmax + (size_t(t.n) * argmax_groups(g.d.k) + k / 8) * g.tiles + t.index)};
  }
};

// The gradients themselves; those of the last tiles may lie outside.
struct PlainGradient {
  static constexpr bool kPool = false;
  const float* __restrict__ dy;

  struct Tile {
    float v[4] = {};

    __device__ __forceinline__ float sum(int) const { return (v[0] + v[1]) + (v[2] + v[3]); }
    __device__ __forceinline__ void transform(int, float (&e)[16]) const {
      const float t[4][2] = {
          {v[0], v[1]}, {v[0] + v[2], v[1] + v[3]}, {v[0] - v[2], v[1] - v[3]}, {-v[2], -v[3]}};
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        e[4 * i] = t[i][0];
        e[4 * i + 1] = t[i][0] + t[i][1];
        e[4 * i + 2] = t[i][0] - t[i][1];
        e[4 * i + 3] = -t[i][1];
      }
    }
  };

  __device__ __forceinline__ Tile load(const WinogradGeometry& g, const WinogradTile& t,
                                       int k) const {
    const int row = 2 * t.row, column = 2 * t.column;
    const bool low = row + 1 < g.d.p, right = column + 1 < g.d.q;
    const float* at = dy + ((size_t(t.n) * g.d.k + k) * g.d.p + row) * g.d.q + column;
    return {{__ldg(at), right ? __ldg(at + 1) : 0.f, low ? __ldg(at + g.d.q) : 0.f,
             low && right ? __ldg(at + g.d.q + 1) : 0.f}};
  }
};

}  // namespace duet
