// How the product of conv2d_pool_relu_wgmma_windows.h is launched.
#include "layers/conv2d_pool_relu/conv2d_pool_relu_wgmma_windows.h"

#include "kernels/wgmma_windows.cuh"
#include "layers/conv2d/wgmma/mma_staging.cuh"

namespace duet {
namespace {

using Tile = WindowTile;

/// Weights KCRS as wgmma_windows.cuh multiplies them, rounded to tf32, taps from the last on: in steps of eight filters
/// [64 channels][step][tap][octet of channels][four filters][channel][filter].
struct TurnedWeightPart {
  static constexpr int kTaps = Tile::kTaps * Tile::kTaps, kOctets = Tile::kN / 8;
  const float* from;
  int filters, channels;
  float* to;
  FastDivisor by_steps;
  int total, blocks;

  TurnedWeightPart(const float* w, const Conv2dProblem& d, float* to_)
      : from(w),
        filters(d.k),
        channels(d.c),
        to(to_),
        by_steps(ceil_div(d.k, Tile::kDepth)),
        total(elements(d)),
        blocks(ceil_div(total, kStagingThreads)) {}
  static int elements(const Conv2dProblem& d) {
    return round_up(d.c, Tile::kN) * kTaps * round_up(d.k, Tile::kDepth);
  }

  __device__ __forceinline__ void stage(int block) const {
    const int i = block * kStagingThreads + threadIdx.x;
    if (i >= total) return;
    const int octet = i / 64 % kOctets, tap = i / 64 / kOctets % kTaps;
    int tile, step;
    by_steps.divmod(i / 64 / kOctets / kTaps, tile, step);
    const int c = (tile * kOctets + octet) * 8 + i / 4 % 8;
    const int k = step * Tile::kDepth + i / 32 % 2 * 4 + i % 4;
    to[i] = c < channels && k < filters
                ? tf32_rounded(from[(size_t(k) * channels + c) * kTaps + kTaps - 1 - tap])
                : 0.f;
  }
};

struct NothingStaged {
  static constexpr int blocks = 0;
  __device__ __forceinline__ void stage(int) const {}
};

}  // namespace

WindowsBackwardData::WindowsBackwardData(const Conv2dProblem& d, int multiprocessors)
    : problem_(d),
      above_(d.pad_h % 2),
      left_(d.pad_w % 2),
      units_(d.n, above_ + std::min(d.h, d.p + 2 - d.pad_h),
             left_ + std::min(d.w, d.q + 2 - d.pad_w), Tile::kRows, Tile::kUnits,
             std::max(1, multiprocessors / ceil_div(d.c, Tile::kN))) {}

bool WindowsBackwardData::preferred() const {
  const Conv2dProblem& d = problem_;
  if (d.math != Math::kTF32 || d.layout != Layout::kNCHW || d.r != 3 || d.s != 3 ||
      d.stride_h != 1 || d.stride_w != 1 || d.dilation_h != 1 || d.dilation_w != 1 || d.pad_h > 2 ||
      d.pad_w > 2)
    return false;
  const double wanted = double(d.n) * d.h * d.w * d.c;
  const double all = double(units_.all) * ImageBlocks::kImages * Tile::kRows * Tile::kColumns *
                     round_up(d.c, Tile::kN);
  return units_.wide() && units_.rounds > 0 && wanted >= 0.7 * all;
}

size_t WindowsBackwardData::workspace_bytes() const {
  return sizeof(float) * TurnedWeightPart::elements(problem_);
}

void WindowsBackwardData::run(const Run& run, const Tensor& dy, const Tensor& state,
                              const Tensor& w, const Tensor& dx) const {
  const Conv2dProblem& d = problem_;
  auto* const weights = static_cast<float*>(run.workspace);
  launch_staging(TurnedWeightPart(w.data<float>(), d, weights), NothingStaged{}, run.stream());
  launch_wgmma_windows({dy.data<float>(), state.data<uint32_t>(), d.n, d.k, d.p / 2, d.q / 2,
                        d.pad_h / 2 - 1, d.pad_w / 2 - 1},
                       weights, units_, {dx.data<float>(), d.n, d.c, d.h, d.w, above_, left_},
                       run.stream());
}

}  // namespace duet
