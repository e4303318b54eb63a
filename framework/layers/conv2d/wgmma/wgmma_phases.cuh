// The products of which dx consists, for WgmmaConvolution: one where a convolution's strides are 1, else
// one a phase (stride_phases.cuh). Each is a convolution of dy of stride 1 with a part of the taps, whose
// results lie strides apart. One launch computes all: a tile's number says its phase.
#pragma once

#include <algorithm>
#include <climits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/wgmma_product.cuh"
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

/// All of them, those with most taps first. Boxes are of at most `most` positions; `planes` as PositionBoxes has it.
struct WgmmaPhases {
  static constexpr int kMost = 4;
  std::vector<WgmmaPhase> all;

  WgmmaPhases(const Conv2dProblem& d, int most, bool planes) {
    for (int i = 0; i < std::min(d.stride_h, d.h); ++i) {
      for (int j = 0; j < std::min(d.stride_w, d.w); ++j) {
        const WgmmaPhaseAxis h(i, d.h, d.r, d.stride_h, d.dilation_h, d.pad_h);
        const WgmmaPhaseAxis w(j, d.w, d.s, d.stride_w, d.dilation_w, d.pad_w);
        PositionBoxes boxes(d.n, h.positions, w.positions, most, planes);
        boxes.first_pixel = i * d.w + j;
        boxes.row_pixels = d.stride_h * d.w;
        boxes.column_pixels = d.stride_w;
        const FastDivisor by_w(std::max(w.outputs.count, 1));
        all.push_back({h.outputs,
                       w.outputs,
                       {h.tap * d.s + w.tap, h.tap_step * d.s, w.tap_step, by_w},
                       boxes});
      }
    }
    std::stable_sort(all.begin(), all.end(), [](const WgmmaPhase& a, const WgmmaPhase& b) {
      return a.tap_count() > b.tap_count();
    });
  }
  /// How many have taps.
  int with_taps() const {
    return static_cast<int>(std::count_if(
        all.begin(), all.end(), [](const WgmmaPhase& phase) { return phase.tap_count() > 0; }));
  }
  /// For a plan; a tap is so many steps, and a tile takes one at least.
  std::vector<RowTiles> rows(int steps_of_tap) const {
    std::vector<RowTiles> rows;
    for (const WgmmaPhase& phase : all)
      rows.push_back({phase.boxes.count(), std::max(phase.tap_count() * steps_of_tap, 1)});
    return rows;
  }
};

/// The taps of phases, one phase's after the other's, and then one outside the filter, where copies find zeros.
struct PhasedTaps {
  static constexpr int kMost = WgmmaPhases::kMost + 1;
  int first[kMost];  // beyond all there may be: INT_MAX
  TapNumbers numbers[kMost];

  /// Of a filter of so many taps.
  PhasedTaps(const WgmmaPhases& phases, int taps) {
    const int count = phases.with_taps();
    int before = 0;
    for (int i = 0; i < kMost; ++i) {
      first[i] = i > count ? INT_MAX : before;
      numbers[i] = {taps, 0, 0};
      if (i >= count) continue;
      numbers[i] = phases.all[i].taps;
      before += phases.all[i].tap_count();
    }
  }
  __device__ __forceinline__ int of(int number) const {
    int phase = 0;
#pragma unroll
    for (int i = 1; i < kMost; ++i) phase += number >= first[i];
    return numbers[phase].of(number - first[phase]);
  }
};

/// ImageByPosition of all phases: tiles and steps are numbered as the phases are ordered, and each tile has the steps of its
/// phase. Where a split or a phase has none, one step outside images and filters makes zeros.
template <class T>
struct PhasedImages {
  using Element = T;
  static constexpr bool kTurned = false, kSums = false;
  struct Phase {
    TapImage<T> image;
    PositionBoxes boxes;
    int first_tile, first_step, steps, steps_per_split;
  };
  struct Start {
    PositionBoxes::Start at;
    int phase;
  };
  Phase phases[WgmmaPhases::kMost];
  int outside;  // the step

  /// Of dy, whose channels are d.k.
  PhasedImages(const WgmmaPhases& of, const T* dy, const Conv2dProblem& d, int splits)
      : PhasedImages(of, dy, d, splits, std::make_index_sequence<WgmmaPhases::kMost>()) {}

  template <int kRows>
  __device__ __forceinline__ int bytes(const Start& start) const {
    return phases[start.phase].boxes.box() * kRowBytes;
  }
  template <int kRows>
  __device__ __forceinline__ Start start(int tile) const {
    const int phase = phase_of(tile);
    return {phases[phase].boxes.start(tile - phases[phase].first_tile), phase};
  }
  __device__ __forceinline__ WgmmaSteps steps(int tile, int split) const {
    const Phase& phase = phases[phase_of(tile)];
    const int first = split * phase.steps_per_split;
    const int count = min(phase.steps, first + phase.steps_per_split) - first;
    if (count <= 0) return {outside, 1};
    return {phase.first_step + first, count};
  }
  template <int kRows>
  __device__ __forceinline__ void copy(const Start& start, int step, char* shared,
                                       const CopyBarrier& barrier) const {
    const Phase& phase = phases[start.phase];
    PositionBoxes::Start at = start.at;
    if (step == outside) at.n = phase.boxes.images;
    phase.image.copy(at, phase.image.term(step - phase.first_step), shared, barrier);
  }
  __device__ __forceinline__ bool locate(const Start& start, int row, int& group,
                                         int& number) const {
    return phases[start.phase].boxes.locate(start.at, row, group, number);
  }

 private:
  template <size_t... numbers>
  PhasedImages(const WgmmaPhases& of, const T* dy, const Conv2dProblem& d, int splits,
               std::index_sequence<numbers...>)
      : phases{dy_under(of, dy, d, numbers)...} {
    int tiles = 0, steps = 0;
    for (size_t i = 0; i < WgmmaPhases::kMost; ++i) {
      Phase& phase = phases[i];
      const bool there = i < of.all.size();
      phase.first_tile = there ? tiles : INT_MAX;
      phase.first_step = steps;
      phase.steps = there ? of.all[i].tap_count() * ceil_div(d.k, kStepDepth<T>) : 0;
      phase.steps_per_split = ceil_div(phase.steps, splits);
      tiles += phase.boxes.count();
      steps += phase.steps;
    }
    outside = steps;
  }
  /// Its images and boxes; where there are fewer phases, the last one's again.
  static Phase dy_under(const WgmmaPhases& of, const T* dy, const Conv2dProblem& d, size_t number) {
    const WgmmaPhase& from = of.all[std::min(number, of.all.size() - 1)];
    TapAxis w = from.w;
    w.count = std::max(w.count, 1);  // by which it divides
    return {{dy, d.n, d.p, d.q, d.k, from.h, w, from.boxes}, from.boxes, 0, 0, 0, 0};
  }
  __device__ __forceinline__ int phase_of(int tile) const {
    int phase = 0;
#pragma unroll
    for (int i = 1; i < WgmmaPhases::kMost; ++i) phase += tile >= phases[i].first_tile;
    return phase;
  }
};

}  // namespace duet
