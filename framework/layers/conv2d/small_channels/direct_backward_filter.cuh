// conv2d custom_direct and its fused form, backward_filter: a thread keeps all taps of a few
// filters and walks over windows of many images.
#pragma once

#include "device/launch.h"
#include "kernels/split_reduction.cuh"
#include "layers/conv2d/small_channels/direct_forward.cuh"

namespace duet {

// Sums count values over the lanes of a warp by halving: afterwards lane l holds the sums of values
// [l*count/32, ...). A shuffle tree for each value would take five shuffles a value, this takes
// one.
template <int count, int lanes = 16>
__device__ __forceinline__ void reduce_over_lanes(float* v) {
  constexpr int kHalf = count / 2;
  const bool upper = threadIdx.x & lanes;
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float keep = upper ? v[i + kHalf] : v[i], give = upper ? v[i] : v[i + kHalf];
    v[i] = keep + __shfl_xor_sync(0xffffffffu, give, lanes);
  }
  if constexpr (lanes > 1) reduce_over_lanes<kHalf, lanes / 2>(v);
}

// grid.x runs over splits of the windows, grid.y over groups of kFilters filters.
// partial[split] = dw [filters][taps], then dbias [filters].
template <class T, int kC, int kR, int kFilters, bool kPool>
__global__ void __launch_bounds__(kDirectThreads, kC == 1 && kR == 3 && kPool ? 4 : 2)
    conv2d_direct_backward_filter_kernel(const __grid_constant__ DirectGeometry g,
                                         int windows_per_split, const T* __restrict__ x,
                                         const T* __restrict__ dy,
                                         const uint32_t* __restrict__ argmax,
                                         float* __restrict__ partial) {
  wait_for_primary();
  constexpr int kTaps = kC * kR * kR, kValues = kFilters * (kTaps + 1),
                kPadded = (kValues + 31) / 32 * 32;
  const int k0 = blockIdx.y * kFilters;
  float sum[kPadded];  // [filter][taps, bias]
#pragma unroll
  for (int i = 0; i < kPadded; ++i) sum[i] = 0.f;

  // A dy as it is loaded: to widen it at once would be to wait for it.
  using Word = typename Packed<T, 1>::Word;
  const auto load_word = [](const T* from) -> Word {
    return __ldg(reinterpret_cast<const WordOf<sizeof(T)>*>(from));
  };
  const auto value_of = [](Word word) { return widened_word<T, 1>(WordOf<sizeof(T)>(word)).v[0]; };

  // What a window needs from memory beside its patch. Fetched one window ahead: it comes from DRAM,
  // the patch from L2.
  struct Gradients {
    int n, wh, ww;
    uint32_t codes;
    Word value[kFilters][kPool ? 1 : 4];
  };
  auto fetch = [&](int window) {
    Gradients next;
    int rest;
    g.by_windows.divmod(window, next.n, rest);
    g.by_windows_w.divmod(rest, next.wh, next.ww);
    const T* from = dy + size_t(next.n) * g.d.k * g.y_pixels + size_t(k0) * g.filter_stride;
    if constexpr (kPool) {
      next.codes =
          __ldg(argmax + (size_t(next.n) * argmax_groups(g.d.k) + k0 / 8) * g.windows + rest) >>
          (k0 % 8 * 4);
#pragma unroll
      for (int f = 0; f < kFilters; ++f)
        next.value[f][0] =
            k0 + f < g.d.k ? load_word(from + f * g.filter_stride + rest * g.pixel_stride) : Word();
    } else {
#pragma unroll
      for (int f = 0; f < kFilters; ++f)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int p = 2 * next.wh + e / 2, q = 2 * next.ww + e % 2;
          next.value[f][e] =
              k0 + f < g.d.k && p < g.d.p && q < g.d.q
                  ? load_word(from + f * g.filter_stride + (p * g.d.q + q) * g.pixel_stride)
                  : Word();
        }
    }
    return next;
  };
  const int end = min(g.total_windows, int(blockIdx.x + 1) * windows_per_split);
  int window = blockIdx.x * windows_per_split + threadIdx.x;
  Gradients next;
  if (window < end) next = fetch(window);
  while (window < end) {
    const Gradients now = next;
    window += kDirectThreads;
    DirectPatch<kC, kR> patch;
    patch.load(g, x, now.n, now.wh, now.ww);
    if (window < end) next = fetch(window);
#pragma unroll
    for (int f = 0; f < kFilters; ++f) {
      float e[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kPool) {
          e[i] = (now.codes >> 4 * f & 15) == uint32_t(i) ? value_of(now.value[f][0]) : 0.f;
        } else {
          e[i] = value_of(now.value[f][i]);
        }
      }
      float* out = sum + f * (kTaps + 1);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
#pragma unroll
        for (int c = 0; c < kC; ++c)
#pragma unroll
          for (int r = 0; r < kR; ++r)
#pragma unroll
            for (int s = 0; s < kR; ++s)
              out[(c * kR + r) * kR + s] =
                  fmaf(e[i], patch.v[c][r + i / 2][s + i % 2], out[(c * kR + r) * kR + s]);
      }
      out[kTaps] += (e[0] + e[1]) + (e[2] + e[3]);
    }
  }

  reduce_over_lanes<kPadded>(sum);
  __shared__ float warp_sums[kDirectThreads / 32][kPadded];
  constexpr int kPerLane = kPadded / 32;
#pragma unroll
  for (int i = 0; i < kPerLane; ++i)
    warp_sums[threadIdx.x / 32][threadIdx.x % 32 * kPerLane + i] = sum[i];
  __syncthreads();
  float* out = partial + size_t(blockIdx.x) * g.d.k * (kTaps + 1);
  for (int i = threadIdx.x; i < kValues; i += kDirectThreads) {
    const int k = k0 + i / (kTaps + 1), tap = i % (kTaps + 1);
    if (k >= g.d.k) continue;
    float total = 0.f;
#pragma unroll
    for (int warp = 0; warp < kDirectThreads / 32; ++warp) total += warp_sums[warp][i];
    const int at =
        k * kTaps + (tap / (kR * kR)) * g.w_channel_stride + (tap % (kR * kR)) * g.w_tap_stride;
    out[tap < kTaps ? at : g.d.k * kTaps + k] = total;
  }
}

}  // namespace duet
