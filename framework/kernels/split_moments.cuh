// Images as launch_sum_images (split_reduction.cuh) sums them, and the moments of what it stores.
#pragma once

#include "kernels/moment_parts.cuh"
#include "kernels/split_reduction.cuh"

namespace duet {

/// Images of `channels` and `pixels`; where channels are innermost, a pixel is an image of one. A part is 8 images, and 32
/// pixels of them where there are more.
struct SummedImages {
  static constexpr int kEach = 8;
  int images, channels, pixels;

  SummedImages(Layout layout, int images_, int channels_, int pixels_)
      : images(layout == Layout::kNCHW ? images_ : images_ * pixels_),
        channels(channels_),
        pixels(layout == Layout::kNCHW ? pixels_ : 1) {}
  /// 0 where the lanes of a warp would be of parts of channels.
  int parts() const {
    const bool whole = 32 % pixels == 0 || pixels % 32 == 0;
    const int groups = ceil_div(images, kEach);
    return whole && groups <= 65535 ? groups * parts_of_image() : 0;
  }
  __host__ __device__ int parts_of_image() const { return pixels <= 32 ? 1 : pixels / 32; }
};

// Mapping: a thread an element of 8 images, one after the other, so that its values are of one channel.
template <class T>
__global__ void __launch_bounds__(256)
    sum_images_moments_kernel(const float* partial, int splits, size_t stride,
                              const SummedImages of, FastDivisor by_pixels,
                              const float* __restrict__ bias, T* __restrict__ out,
                              const ChannelMoments moments) {
  constexpr int kEach = SummedImages::kEach;
  const int i = blockIdx.x * blockDim.x + threadIdx.x, elements = of.channels * of.pixels;
  const int first = blockIdx.y * kEach, count = i < elements ? min(kEach, of.images - first) : 0;
  int channel, pixel;
  by_pixels.divmod(i, channel, pixel);
  const float shift = bias != nullptr && count > 0 ? __ldg(bias + channel) : 0.f;
  wait_for_primary();
  float values[kEach];
#pragma unroll
  for (int n = 0; n < kEach; ++n) {
    if (n >= count) continue;
    const size_t at = size_t(first + n) * elements + i;
    float total = 0.f;
#pragma unroll 4
    for (int s = 0; s < splits; ++s) total += partial[s * stride + at];
    const T stored(total + shift);
    out[at] = stored;
    values[n] = static_cast<float>(stored);
  }
  const auto visit = [&](auto look) {
#pragma unroll
    for (int n = 0; n < kEach; ++n)
      if (n < count) look(values[n]);
  };
  Moments all{float(count), 0.f, 0.f};
  look_twice(count > 0 ? 1.f / all.count : 0.f, visit, all.mean, all.squares);
  const int lanes = min(of.pixels, 32);
  for (int step = 1; step < lanes; step *= 2)
    all = joined(all, {__shfl_xor_sync(~0u, all.count, step), __shfl_xor_sync(~0u, all.mean, step),
                       __shfl_xor_sync(~0u, all.squares, step)});
  if (count == 0 || pixel % lanes != 0) return;
  const int part = blockIdx.y * of.parts_of_image() + pixel / 32;
  leave_moments(moments, channel, part, all.mean, all.squares);
  if (channel == 0) moments.counts[part] = all.count;
}

/// REQUIRES: `moments` has the parts of `of`.
template <class T>
void launch_sum_images_moments(const float* partial, int splits, size_t stride,
                               const SummedImages& of, const float* bias, T* out,
                               const ChannelMoments& moments, cudaStream_t stream) {
  constexpr int kThreads = 256;
  const dim3 grid(ceil_div(of.channels * of.pixels, kThreads),
                  ceil_div(of.images, SummedImages::kEach));
  launch({.gridDim = grid, .blockDim = kThreads, .stream = stream}, {overlaps_primary()},
         sum_images_moments_kernel<T>, partial, splits, stride, of, FastDivisor(of.pixels), bias,
         out, moments);
}

}  // namespace duet
