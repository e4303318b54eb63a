// Forward and backward_data of pointwise_product.cuh for a few images of one pixel, as behind a global pooling: a product
// of a matrix and few vectors, whose time is that of its longest chain of loads. On float32 units, weights read once for
// eight images.
//
//   forward          y [n][k] = sum over c of w[k][c] * x [n][c]     a warp a filter, its lanes along c
//   backward_data    dx[n][c] = sum over k of w[k][c] * dy[n][k]     a lane a channel, warps along k
#pragma once

#include "device/launch.h"
#include "kernels/vector.cuh"
#include "layers/conv2d/conv2d.h"
#include "layers/conv2d/pointwise.h"

namespace duet {

inline constexpr int kPixelImages = 8;  // of a block

// blockIdx.x is kPixelFilters filters, y eight images.
inline constexpr int kPixelFilters = 4;
template <class T>
__global__ void __launch_bounds__(32 * kPixelFilters)
    pixel_forward_kernel(int images, int channels, int filters, const float* w, const T* x,
                         const float* bias, T* y) {
  wait_for_primary();
  const int lane = threadIdx.x % 32, k = blockIdx.x * kPixelFilters + int(threadIdx.x) / 32;
  const int n0 = blockIdx.y * kPixelImages, count = min(kPixelImages, images - n0);
  if (k >= filters) return;
  float sums[kPixelImages] = {};
#pragma unroll 4
  for (int c = lane; c < channels; c += 32) {
    const float weight = w[k * channels + c];
#pragma unroll
    for (int i = 0; i < kPixelImages; ++i)
      if (i < count) sums[i] = fmaf(weight, float(x[(n0 + i) * channels + c]), sums[i]);
  }
  const float shift = bias != nullptr ? bias[k] : 0.f;
#pragma unroll
  for (int i = 0; i < kPixelImages; ++i) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2) sums[i] += __shfl_xor_sync(~0u, sums[i], step);
    if (lane == i && i < count) y[(n0 + i) * filters + k] = T(sums[i] + shift);
  }
}

// blockIdx.x is 32 channels, y eight images.
inline constexpr int kPixelWarps = 16;
template <class T>
__global__ void __launch_bounds__(32 * kPixelWarps)
    pixel_backward_data_kernel(int images, int channels, int filters, const float* w, const T* dy,
                               T* dx) {
  wait_for_primary();
  __shared__ float parts[kPixelWarps][kPixelImages][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, c = blockIdx.x * 32 + lane;
  const int n0 = blockIdx.y * kPixelImages, count = min(kPixelImages, images - n0);
  float sums[kPixelImages] = {};
#pragma unroll 4
  for (int k = warp; k < filters; k += kPixelWarps) {
    const float weight = c < channels ? w[k * channels + c] : 0.f;
#pragma unroll
    for (int i = 0; i < kPixelImages; ++i)
      if (i < count) sums[i] = fmaf(weight, float(dy[(n0 + i) * filters + k]), sums[i]);
  }
#pragma unroll
  for (int i = 0; i < kPixelImages; ++i) parts[warp][i][lane] = sums[i];
  __syncthreads();
  if (warp >= count || c >= channels) return;
  float sum = 0;
#pragma unroll
  for (int part = 0; part < kPixelWarps; ++part) sum += parts[part][warp][lane];
  dx[(n0 + warp) * channels + c] = T(sum);
}

template <class T>
void launch_pixel_forward(const Conv2dProblem& d, const float* w, const T* x, const float* bias,
                          T* y, cudaStream_t stream) {
  launch_following({dim3(ceil_div(d.k, kPixelFilters), ceil_div(d.n, kPixelImages)),
                    32 * kPixelFilters, 0, stream},
                   pixel_forward_kernel<T>, d.n, d.c, d.k, w, x, bias, y);
}
template <class T>
void launch_pixel_backward_data(const Conv2dProblem& d, const float* w, const T* dy, T* dx,
                                cudaStream_t stream) {
  launch_following(
      {dim3(ceil_div(d.c, 32), ceil_div(d.n, kPixelImages)), 32 * kPixelWarps, 0, stream},
      pixel_backward_data_kernel<T>, d.n, d.c, d.k, w, dy, dx);
}

}  // namespace duet
