// How Winograd forward ends: what becomes of a tile's 2x2 outputs.
#pragma once

#include "layers/conv2d/packed_argmax.cuh"
#include "layers/conv2d/winograd/winograd.cuh"

namespace duet {

// The tile is the window of a 2x2 pooling: its largest value, clipped by relu, and where it was.
struct PooledOutput {
  static constexpr bool kPool = true;
  const float* __restrict__ bias;  // may be nullptr
  float* __restrict__ y;
  uint32_t* __restrict__ argmax;

  // One tile of filters from k0 on, whose outputs come one filter after the other.
  struct Tile {
    const PooledOutput& to;
    const WinogradGeometry& g;
    const WinogradTile& tile;
    const int k0;
    uint32_t codes = 0;

    __device__ __forceinline__ void put(int e, const float4& v) {
      const int k = k0 + e;
      if (k >= g.d.k) return;
      const float b = to.bias != nullptr ? __ldg(to.bias + k) : 0.f;
      const PooledValue pooled = pool_window(v.x + b, v.y + b, v.z + b, v.w + b);
      codes |= pooled.code << (e * 4);
      to.y[(size_t(tile.n) * g.d.k + k) * g.tiles + tile.index] = pooled.value;
    }
    // Behind the last of so many: the argmax word of eight filters, or half of one.
    template <int filters>
    __device__ __forceinline__ void finish() {
      if (k0 / 8 * 8 >= g.d.k) return;
      uint32_t* const at =
          to.argmax + (size_t(tile.n) * argmax_groups(g.d.k) + k0 / 8) * g.tiles + tile.index;
      if constexpr (filters == 8) {
        *at = codes;
      } else {
        static_assert(filters == 4);
        reinterpret_cast<uint16_t*>(at)[k0 % 8 / 4] = uint16_t(codes);
      }
    }
  };
};

// The outputs themselves; those of the last tiles may lie outside.
struct PlainOutput {
  static constexpr bool kPool = false;
  const float* __restrict__ bias;  // may be nullptr
  float* __restrict__ y;

  struct Tile {
    const PlainOutput& to;
    const WinogradGeometry& g;
    const WinogradTile& tile;
    const int k0;

    __device__ __forceinline__ void put(int e, const float4& v) {
      const int k = k0 + e;
      if (k >= g.d.k) return;
      const float b = to.bias != nullptr ? __ldg(to.bias + k) : 0.f;
      const int row = 2 * tile.row, column = 2 * tile.column;
      const bool low = row + 1 < g.d.p, right = column + 1 < g.d.q;
      float* at = to.y + ((size_t(tile.n) * g.d.k + k) * g.d.p + row) * g.d.q + column;
      if (g.d.q % 2 == 0) {  // then a tile's rows are 8-byte aligned, and whole
        *reinterpret_cast<float2*>(at) = make_float2(v.x + b, v.y + b);
        if (low) *reinterpret_cast<float2*>(at + g.d.q) = make_float2(v.z + b, v.w + b);
        return;
      }
      at[0] = v.x + b;
      if (right) at[1] = v.y + b;
      if (low) at[g.d.q] = v.z + b;
      if (low && right) at[g.d.q + 1] = v.w + b;
    }
    template <int>
    __device__ __forceinline__ void finish() {}
  };
};

}  // namespace duet
