// What the convolution kernels know of a problem: its sizes and the divisors that turn a row number
// into (image, row, column), passed to kernels by value; and the few host functions that plan
// launches.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <optional>
#include <string>

#include "device/attribute.h"
#include "layers/conv2d/conv2d.h"

namespace duet {

__host__ __device__ inline int ceil_div(int a, int b) { return (a + b - 1) / b; }
__host__ __device__ constexpr int round_up(int a, int unit) { return (a + unit - 1) / unit * unit; }

/// Multiprocessors of the current device.
inline int multiprocessor_count() { return gpu_attribute(cudaDevAttrMultiProcessorCount); }

/// What none of these kernels can do.
inline std::optional<std::string> ungrouped_fp32_unsupported(const Conv2dProblem& d, Pass pass) {
  if (auto reason = fp32_only(d, pass)) return reason;
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

/// Division of 0 <= n < 2^31 by a constant found at launch.
struct FastDivisor {
  uint32_t divisor = 1, multiplier = 0, shift = 0;

  FastDivisor() = default;
  explicit FastDivisor(int d) : divisor(static_cast<uint32_t>(d)) {
    if (d == 1) return;
    while ((uint64_t{1} << shift) < divisor) ++shift;
    multiplier = static_cast<uint32_t>(((uint64_t{1} << (31 + shift)) + divisor - 1) / divisor);
    shift -= 1;
  }
  __device__ __forceinline__ void divmod(int n, int& quotient, int& remainder) const {
    quotient = divisor == 1 ? n : int(__umulhi(uint32_t(n), multiplier) >> shift);
    remainder = n - quotient * int(divisor);
  }
};

/// The pooled sizes are those of 2x2 windows with stride 2: an odd last row or column is dropped.
struct ConvGeometry {
  Conv2dProblem d;
  int pixels_in = d.h * d.w, pixels_out = d.p * d.q, taps = d.r * d.s;
  int pool_h = d.p / 2, pool_w = d.q / 2, windows = pool_h * pool_w;
  FastDivisor by_taps{taps}, by_s{d.s}, by_c{d.c}, by_k{d.k};
  FastDivisor by_pixels_in{pixels_in}, by_w{d.w}, by_pixels_out{pixels_out}, by_q{d.q};
  FastDivisor by_windows{windows > 0 ? windows : 1}, by_pool_w{pool_w > 0 ? pool_w : 1};

  explicit ConvGeometry(const Conv2dProblem& problem) : d(problem) {}
  /// Output position number -> image, row, column. In pooled order the outputs are numbered window
  /// by window, the four elements of a window in row-major order: four consecutive numbers are one
  /// pooling window.
  template <bool kPooledOrder>
  __device__ __forceinline__ void output_position(int m, int& n, int& p, int& q) const {
    if constexpr (kPooledOrder) {
      int window, wh, ww;
      by_windows.divmod(m >> 2, n, window);
      by_pool_w.divmod(window, wh, ww);
      p = 2 * wh + ((m >> 1) & 1);
      q = 2 * ww + (m & 1);
    } else {
      int pixel;
      by_pixels_out.divmod(m, n, pixel);
      by_q.divmod(pixel, p, q);
    }
  }
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

}  // namespace duet
