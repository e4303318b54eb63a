// The phases of dx where a convolution has a stride. A tap r reaches row h of the input only if
// h + pad_h - r * dilation_h is a multiple of stride_h: rows whose h + pad_h have the same
// remainder share their taps, and so do columns. Positions that share both are a phase. Its dx is a
// product of its own, n * positions rows by k * taps, and in its own numbers of positions and taps
// the stride is 1. Phases without a tap are zeros.
#pragma once

#include <algorithm>
#include <numeric>

#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

/// A phase along one axis. Position i is begin + i * stride, tap j is tap + j * tap_step, and they
/// meet at output `out` + i - j * out_step, which may lie outside.
struct AxisPhase {
  int begin, tap, out;
  bool longer, more_taps;  // than other phases, by one
};

/// The phases along one axis: as many as have positions. Phase 0 has the most taps if any multiple
/// of the stride is inside.
struct PhaseAxis {
  int size, taps, stride, dilation, pad;
  int phases, first, tap_step, out_step;
  int positions, longer;       // positions of a phase; `longer` phases, the first, have one more
  int fewest_taps, more_taps;  // likewise taps
  FastDivisor by_stride;

  PhaseAxis(int size_, int taps_, int stride_, int dilation_, int pad_)
      : size(size_), taps(taps_), stride(stride_), dilation(dilation_), pad(pad_) {
    phases = std::min(stride, size);
    const int aligned = (stride - pad % stride) % stride;
    first = aligned < phases ? aligned : 0;
    tap_step = stride / std::gcd(stride, dilation);
    out_step = dilation / std::gcd(stride, dilation);
    positions = size / stride;
    longer = size % stride;
    fewest_taps = taps / tap_step;
    more_taps = taps % tap_step;
    by_stride = FastDivisor(stride);
  }
  int most_positions() const { return positions + (longer > 0); }
  int most_taps() const { return fewest_taps + (more_taps > 0); }

  /// `has_taps`: whether any tap reaches the phase.
  __device__ __forceinline__ AxisPhase phase(int i, bool& has_taps) const {
    const int begin = first + i < phases ? first + i : first + i - phases;
    int out, rest;
    by_stride.divmod(begin + pad, out, rest);
    const int end = min(taps, tap_step);
    int tap = 0, tap_out = 0, tap_rest = 0;
    for (; tap < end; ++tap) {
      by_stride.divmod(tap * dilation, tap_out, tap_rest);
      if (tap_rest == rest) break;
    }
    has_taps = tap < end;
    return {begin, tap, out - tap_out, begin < longer, tap < more_taps};
  }
};

/// The phases of an image, and the divisors for the two lengths and numbers of taps along an axis.
struct StridePhases {
  PhaseAxis h, w;
  FastDivisor by_phases_w, by_columns[2], by_positions[2][2], by_taps_w[2], by_taps[2][2];

  explicit StridePhases(const Conv2dProblem& d)
      : h(d.h, d.r, d.stride_h, d.dilation_h, d.pad_h),
        w(d.w, d.s, d.stride_w, d.dilation_w, d.pad_w),
        by_phases_w(w.phases) {
    const auto by = [](int count) { return FastDivisor(std::max(count, 1)); };
    for (int j : {0, 1}) {
      by_columns[j] = by(w.positions + j);
      by_taps_w[j] = by(w.fewest_taps + j);
      for (int i : {0, 1}) {
        by_positions[i][j] = by((h.positions + i) * (w.positions + j));
        by_taps[i][j] = by((h.fewest_taps + i) * (w.fewest_taps + j));
      }
    }
  }
  bool unit() const { return h.stride == 1 && w.stride == 1; }
  int count() const { return h.phases * w.phases; }
  /// Of the phase that has most.
  int most_positions() const { return h.most_positions() * w.most_positions(); }
  int most_taps() const { return h.most_taps() * w.most_taps(); }
};

/// One of them.
struct Phase {
  const StridePhases& all;
  AxisPhase h, w;
  int positions, taps;  // numbers of them

  __device__ __forceinline__ Phase(const StridePhases& phases, int number) : all(phases) {
    int i, j;
    all.by_phases_w.divmod(number, i, j);
    bool taps_h, taps_w;
    h = all.h.phase(i, taps_h);
    w = all.w.phase(j, taps_w);
    positions = (all.h.positions + h.longer) * (all.w.positions + w.longer);
    taps = taps_h && taps_w ? (all.h.fewest_taps + h.more_taps) * (all.w.fewest_taps + w.more_taps)
                            : 0;
  }
  /// Row of the product -> image, and the numbers of the position's row and column in the phase.
  __device__ __forceinline__ void position(int m, int& n, int& i, int& j) const {
    int rest;
    all.by_positions[h.longer][w.longer].divmod(m, n, rest);
    all.by_columns[w.longer].divmod(rest, i, j);
  }
  /// Row of the product -> image and pixel of dx.
  __device__ __forceinline__ void pixel(int m, int& n, int& pixel) const {
    int i, j;
    position(m, n, i, j);
    pixel = (h.begin + i * all.h.stride) * all.w.size + w.begin + j * all.w.stride;
  }
  /// Term of the sum -> filter, and the numbers of the tap's row and column in the phase. The order
  /// is that of ConvGeometry::tap().
  template <Layout kLayout>
  __device__ __forceinline__ void tap(int term, const FastDivisor& by_k, int& k, int& i,
                                      int& j) const {
    int rest;
    if constexpr (kLayout == Layout::kNCHW) {
      all.by_taps[h.more_taps][w.more_taps].divmod(term, k, rest);
    } else {
      by_k.divmod(term, rest, k);
    }
    all.by_taps_w[w.more_taps].divmod(rest, i, j);
  }
};

}  // namespace duet
