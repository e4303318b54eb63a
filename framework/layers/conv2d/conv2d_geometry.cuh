// What the convolution kernels know of a problem: its sizes and the divisors that turn a row number
// into (image, row, column), passed to kernels by value; and the few host functions that plan
// launches.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <string>

#include "kernels/integers.cuh"
#include "layers/conv2d/conv2d.h"

namespace duet {

/// What none of these kernels can do.
inline std::optional<std::string> ungrouped_unsupported(const Conv2dProblem& d) {
  if (d.groups != 1) return "takes groups: 1 only, not " + std::to_string(d.groups);
  // Row numbers are rounded up to whole tiles and splits, hence the margin.
  constexpr int64_t kMost = (int64_t{1} << 31) - 4096;
  for (const TensorDesc& t : {d.x_desc(), d.w_desc(), d.y_desc()}) {
    if (t.elements() > kMost) return "numbers elements in 32 bits; use a smaller batch";
  }
  constexpr int kMostChannels = 1 << 15;  // they make a grid's y
  if (d.c > kMostChannels || d.k > kMostChannels) {
    return "takes at most " + std::to_string(kMostChannels) + " channels and filters";
  }
  return {};
}

/// The pooled sizes are those of 2x2 windows with stride 2: an odd last row or column is dropped.
struct ConvGeometry {
  Conv2dProblem d;
  int pixels_in = d.h * d.w, pixels_out = d.p * d.q, taps = d.r * d.s;
  int pool_h = d.p / 2, pool_w = d.q / 2, windows = pool_h * pool_w;
  FastDivisor by_taps{taps}, by_s{d.s}, by_c{d.c}, by_k{d.k};
  FastDivisor by_pixels_in{pixels_in}, by_w{d.w}, by_pixels_out{pixels_out}, by_q{d.q};
  FastDivisor by_windows{windows > 0 ? windows : 1}, by_pool_w{pool_w > 0 ? pool_w : 1};

  explicit ConvGeometry(const Conv2dProblem& problem) : d(problem) {}
  /// Tap number -> channel, r, s. Taps run (channel, r, s) in NCHW and (r, s, channel) in NHWC, so
  /// that the fastest one is contiguous in the weights.
  template <Layout kLayout>
  __device__ __forceinline__ void tap(int i, const FastDivisor& by_channels, int& channel, int& r,
                                      int& s) const {
    int rest;
    if constexpr (kLayout == Layout::kNCHW) {
      by_taps.divmod(i, channel, rest);
      by_s.divmod(rest, r, s);
    } else {
      by_channels.divmod(i, rest, channel);
      by_s.divmod(rest, r, s);
    }
  }
};

/// Output position number -> image, row, column: pixel by pixel.
struct PixelOrder {
  static constexpr bool kPadded = false;
  __device__ __forceinline__ static void position(const ConvGeometry& g, int m, int& n, int& p,
                                                  int& q) {
    int pixel;
    g.by_pixels_out.divmod(m, n, pixel);
    g.by_q.divmod(pixel, p, q);
  }
};

/// The same in pooling windows, kStride of them at a time: kStride numbers are the first elements of
/// as many windows, the next kStride the second ones, and so on, row-major within a window. With
/// kStride 1 four consecutive numbers are one window. The last windows may be beyond the images.
template <int kStride>
struct WindowOrder {
  static constexpr bool kPadded = kStride > 1;
  __host__ __device__ static int numbers(int windows) {
    return ceil_div(windows, kStride) * 4 * kStride;
  }
  /// Of the first element's number.
  __device__ __forceinline__ static int window(int m) {
    return m / (4 * kStride) * kStride + m % kStride;
  }
  __device__ __forceinline__ static void position(const ConvGeometry& g, int m, int& n, int& p,
                                                  int& q) {
    const unsigned number = m, element = number / kStride % 4;
    int in_image, row, column;
    g.by_windows.divmod(int(number / (4 * kStride) * kStride + number % kStride), n, in_image);
    g.by_pool_w.divmod(in_image, row, column);
    p = 2 * row + int(element >> 1);
    q = 2 * column + int(element & 1);
  }
};

}  // namespace duet
