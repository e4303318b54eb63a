// The products of which dx consists, for WgmmaConvolution: one where a convolution's strides are 1, else
// one a phase (stride_phases.cuh). Each is a convolution of dy of stride 1 with a part of the taps, whose
// results lie strides apart.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "kernels/wgmma_operands.cuh"
#include "layers/conv2d/conv2d_geometry.cuh"

namespace duet {

/// A phase along one axis: positions begin, begin + stride, ..., and taps tap, tap + tap_step, ...;
/// `outputs` says where on dy they meet.
struct WgmmaPhaseAxis {
  int begin, positions, tap, tap_step;
  TapAxis outputs;  // count: how many taps, perhaps none

  WgmmaPhaseAxis(int begin_, int size, int taps, int stride, int dilation, int pad)
      : begin(begin_), positions(ceil_div(size - begin_, stride)) {
    const int common = std::gcd(stride, dilation);
    tap_step = stride / common;
    const auto reaches = [&](int j) { return (begin + pad - j * dilation) % stride == 0; };
    for (tap = 0; tap < std::min(taps, tap_step) && !reaches(tap);) ++tap;
    const bool any = tap < std::min(taps, tap_step);
    outputs = {any ? ceil_div(taps - tap, tap_step) : 0, 1,
               any ? (begin + pad - tap * dilation) / stride : 0, -dilation / common};
  }
};

struct WgmmaPhase {
  TapAxis h, w;
  TapNumbers taps;
  PositionBoxes boxes;
  int tap_count() const { return h.count * w.count; }
};

/// Those that have taps: where they are fewer than `all`, dx has positions that no tap reaches. Boxes
/// are of at most `most` positions; `planes` as PositionBoxes has it.
struct WgmmaPhases {
  std::vector<WgmmaPhase> with_taps;
  int all = 0;

  WgmmaPhases(const Conv2dProblem& d, int most, bool planes) {
    for (int i = 0; i < std::min(d.stride_h, d.h); ++i) {
      for (int j = 0; j < std::min(d.stride_w, d.w); ++j) {
        const WgmmaPhaseAxis h(i, d.h, d.r, d.stride_h, d.dilation_h, d.pad_h);
        const WgmmaPhaseAxis w(j, d.w, d.s, d.stride_w, d.dilation_w, d.pad_w);
        ++all;
        if (h.outputs.count * w.outputs.count == 0) continue;
        PositionBoxes boxes(d.n, h.positions, w.positions, most, false, planes);
        boxes.first_pixel = i * d.w + j;
        boxes.row_pixels = d.stride_h * d.w;
        boxes.column_pixels = d.stride_w;
        with_taps.push_back(
            {h.outputs,
             w.outputs,
             {h.tap * d.s + w.tap, h.tap_step * d.s, w.tap_step, FastDivisor(w.outputs.count)},
             boxes});
      }
    }
  }
};

}  // namespace duet
