// conv2d custom_direct and its fused form, forward: the parts that both directions share, and the
// forward kernel. The filter bank of a network's first layer is small enough that a thread keeps
// its input patch in registers and walks over the filters. With kPool a thread's 2x2 outputs become
// one pooled value (packed_argmax.cuh).
#pragma once

#include "device/launch.h"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"
#include "layers/conv2d/packed_argmax.cuh"

namespace duet {

inline constexpr int kDirectThreads = 128;

struct DirectGeometry {
  Conv2dProblem d;
  int windows_h, windows_w, windows, total_windows;  // 2x2 windows an image, and in all
  int y_pixels, filter_stride, pixel_stride;         // of y and dy
  int x_channel_stride, x_pixel_stride, w_channel_stride, w_tap_stride;
  bool all_inside;  // no patch reaches into the padding or beyond the image
  FastDivisor by_windows, by_windows_w;

  /// Pooling drops an odd last row or column; without, its window is half empty.
  DirectGeometry(const Conv2dProblem& problem, bool pool) : d(problem) {
    windows_h = pool ? d.p / 2 : ceil_div(d.p, 2);
    windows_w = pool ? d.q / 2 : ceil_div(d.q, 2);
    windows = windows_h * windows_w;
    total_windows = d.n * windows;
    const bool nchw = d.layout == Layout::kNCHW;
    y_pixels = pool ? windows : d.p * d.q;
    filter_stride = nchw ? y_pixels : 1;
    pixel_stride = nchw ? 1 : d.k;
    x_channel_stride = nchw ? d.h * d.w : 1;
    x_pixel_stride = nchw ? 1 : d.c;
    w_channel_stride = nchw ? d.r * d.s : 1;
    w_tap_stride = nchw ? 1 : d.c;
    all_inside = d.pad_h == 0 && d.pad_w == 0 && (pool || (d.p % 2 == 0 && d.q % 2 == 0));
    by_windows = FastDivisor(windows);
    by_windows_w = FastDivisor(windows_w);
  }
};

/// Floats of a filter in shared memory: its taps, then its bias, padded to whole float4s.
constexpr int direct_filter_pitch(int taps) { return round_up(taps + 1, 4); }

// The (kR+1) x (kR+1) inputs under one window, all channels; zero in the padding.
template <int kC, int kR>
struct DirectPatch {
  static constexpr int kSide = kR + 1;
  float v[kC][kSide][kSide];
  template <class T>
  __device__ __forceinline__ void load(const DirectGeometry& g, const T* x, int n, int wh, int ww) {
    const T* image = x + size_t(n) * g.d.c * g.d.h * g.d.w;
    if (g.all_inside) {
      const T* corner = image + (2 * wh * g.d.w + 2 * ww) * g.x_pixel_stride;
#pragma unroll
      for (int c = 0; c < kC; ++c)
#pragma unroll
        for (int i = 0; i < kSide; ++i)
#pragma unroll
          for (int j = 0; j < kSide; ++j)
            v[c][i][j] =
                duet::load<1>(corner + c * g.x_channel_stride + (i * g.d.w + j) * g.x_pixel_stride)
                    .v[0];
      return;
    }
#pragma unroll
    for (int i = 0; i < kSide; ++i) {
      const int h = 2 * wh - g.d.pad_h + i;
#pragma unroll
      for (int j = 0; j < kSide; ++j) {
        const int w = 2 * ww - g.d.pad_w + j;
        const bool inside = uint32_t(h) < uint32_t(g.d.h) && uint32_t(w) < uint32_t(g.d.w);
#pragma unroll
        for (int c = 0; c < kC; ++c)
          v[c][i][j] = inside ? duet::load<1>(image + c * g.x_channel_stride +
                                              (h * g.d.w + w) * g.x_pixel_stride)
                                    .v[0]
                              : 0.f;
      }
    }
  }
};

/// Eight neighbours, 16 bytes at a time.
template <class T>
__device__ __forceinline__ void store_run(T* to, const float (&values)[8]) {
#pragma unroll
  for (int f = 0; f < 8; f += kWidest<T>) {
    Vector<float, kWidest<T>> run;
#pragma unroll
    for (int e = 0; e < kWidest<T>; ++e) run.v[e] = values[f + e];
    store(to + f, run);
  }
}

// filters_per_block is a multiple of 8; grid.x runs over windows, grid.y over runs of filters. Weights at rest are fetched while
// the kernel before still runs.
// kRuns: filters are innermost, and eight of them are stored at once. REQUIRES there: K is a multiple of 8.
template <class T, int kC, int kR, int kWindows, bool kPool, bool kRuns = false>
__global__ void __launch_bounds__(kDirectThreads)
    conv2d_direct_forward_kernel(const __grid_constant__ DirectGeometry g, int filters_per_block,
                                 bool weights_rest, const T* x, const float* w, const float* bias,
                                 T* __restrict__ y, uint32_t* __restrict__ argmax) {
  if (!weights_rest) wait_for_primary();
  constexpr int kTaps = kC * kR * kR, kTapPitch = direct_filter_pitch(kTaps);
  extern __shared__ __align__(16) float weights[];  // [filter][kTapPitch]
  const int first_filter = blockIdx.y * filters_per_block;
  for (int i = threadIdx.x; i < filters_per_block * (kTaps + 1); i += kDirectThreads) {
    const int filter = i / (kTaps + 1), tap = i % (kTaps + 1), k = first_filter + filter;
    float value = 0.f;
    if (k < g.d.k) {
      if (tap < kTaps) {
        value = __ldg(w + k * kTaps + (tap / (kR * kR)) * g.w_channel_stride +
                      (tap % (kR * kR)) * g.w_tap_stride);
      } else if (bias != nullptr) {
        value = __ldg(bias + k);
      }
    }
    weights[filter * kTapPitch + tap] = value;
  }
  if (weights_rest) wait_for_primary();
  DirectPatch<kC, kR> patch[kWindows];
  int image[kWindows], wh[kWindows], ww[kWindows];
  bool live[kWindows];
#pragma unroll
  for (int i = 0; i < kWindows; ++i) {
    const int window = (blockIdx.x * kWindows + i) * kDirectThreads + threadIdx.x;
    live[i] = window < g.total_windows;
    int rest;
    g.by_windows.divmod(live[i] ? window : 0, image[i], rest);
    g.by_windows_w.divmod(rest, wh[i], ww[i]);
    patch[i].load(g, x, image[i], wh[i], ww[i]);
  }
  __syncthreads();

  for (int group = 0; group < filters_per_block; group += 8) {
    const int k0 = first_filter + group;
    if (k0 >= g.d.k) break;
    uint32_t codes[kWindows] = {};
    float pooled_out[kWindows][8];
    float pixels_out[kRuns ? kWindows : 1][4][8];
#pragma unroll
    for (int f = 0; f < 8; ++f) {
      float taps[kTapPitch];
#pragma unroll
      for (int t = 0; t < kTapPitch; t += 4)
        *reinterpret_cast<float4*>(&taps[t]) =
            *reinterpret_cast<const float4*>(weights + (group + f) * kTapPitch + t);
#pragma unroll
      for (int i = 0; i < kWindows; ++i) {
        float acc[2][2];
        // region multiply
#pragma unroll
        for (int a = 0; a < 2; ++a)
#pragma unroll
          for (int b = 0; b < 2; ++b) {
            acc[a][b] = taps[kTaps];
#pragma unroll
            for (int c = 0; c < kC; ++c)
#pragma unroll
              for (int r = 0; r < kR; ++r)
#pragma unroll
                for (int s = 0; s < kR; ++s)
                  acc[a][b] =
                      fmaf(patch[i].v[c][a + r][b + s], taps[(c * kR + r) * kR + s], acc[a][b]);
          }
        // end multiply
        if constexpr (kPool) {
          const PooledValue pooled = pool_window(acc[0][0], acc[0][1], acc[1][0], acc[1][1]);
          codes[i] |= pooled.code << 4 * f;
          pooled_out[i][f] = pooled.value;
        } else if constexpr (kRuns) {
#pragma unroll
          for (int e = 0; e < 4; ++e) pixels_out[i][e][f] = acc[e / 2][e % 2];
        } else if (live[i] && k0 + f < g.d.k) {
          T* plane = y + size_t(image[i]) * g.d.k * g.y_pixels + size_t(k0 + f) * g.filter_stride;
          const int p = 2 * wh[i], q = 2 * ww[i];
#pragma unroll
          for (int a = 0; a < 2; ++a) {
            if (p + a >= g.d.p) break;
            T* at = plane + size_t((p + a) * g.d.q + q) * g.pixel_stride;
            if (g.pixel_stride == 1 && (g.d.q & 1) == 0) {
              store(at, Vector<float, 2>{acc[a][0], acc[a][1]});
            } else {
              at[0] = T(acc[a][0]);
              if (q + 1 < g.d.q) at[g.pixel_stride] = T(acc[a][1]);
            }
          }
        }
      }
    }
    if constexpr (kPool) {
#pragma unroll
      for (int i = 0; i < kWindows; ++i) {
        if (!live[i]) continue;
        const int window = wh[i] * g.windows_w + ww[i];
        T* at = y + size_t(image[i]) * g.d.k * g.windows + size_t(window) * g.pixel_stride +
                size_t(k0) * g.filter_stride;
        if (g.filter_stride == 1 && g.d.k % 8 == 0) {
          store_run(at, pooled_out[i]);
        } else {
#pragma unroll
          for (int f = 0; f < 8; ++f)
            if (k0 + f < g.d.k) at[f * g.filter_stride] = T(pooled_out[i][f]);
        }
        argmax[(size_t(image[i]) * argmax_groups(g.d.k) + k0 / 8) * g.windows + window] = codes[i];
      }
    } else if constexpr (kRuns) {
#pragma unroll
      for (int i = 0; i < kWindows; ++i) {
        T* const first = y + size_t(image[i]) * g.d.k * g.y_pixels + k0;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int p = 2 * wh[i] + e / 2, q = 2 * ww[i] + e % 2;
          if (live[i] && p < g.d.p && q < g.d.q) {
            store_run(first + size_t(p * g.d.q + q) * g.pixel_stride, pixels_out[i][e]);
          }
        }
      }
    }
  }
}

}  // namespace duet
