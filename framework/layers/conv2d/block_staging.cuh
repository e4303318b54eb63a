// The part of a staging launch (mma_staging.cuh) that writes weights as kernels/wgmma_blocks.cuh multiplies them, rounded to tf32.
#pragma once

#include "layers/conv2d/mma_staging.cuh"

namespace duet {

/// Weights KCRS of 3x3 filters as wgmma_blocks.cuh multiplies them, by tiles of so many filters: in steps of eight channels
/// [tile][step][tap][octet of filters][four channels][filter][channel].
struct BlockWeightPart {
  const float* from;
  int filters, channels;
  float* to;
  FastDivisor by_octets, by_steps;
  int total, blocks;

  BlockWeightPart(const float* w, const Conv2dProblem& d, int tile, float* to_)
      : from(w),
        filters(d.k),
        channels(d.c),
        to(to_),
        by_octets(tile / 8),
        by_steps(ceil_div(d.c, 8)),
        total(elements(d, tile)),
        blocks(ceil_div(total, kStagingThreads)) {}
  static int elements(const Conv2dProblem& d, int tile) {
    return round_up(d.k, tile) * kTaps * round_up(d.c, 8);
  }

  __device__ __forceinline__ void stage(int block) const {
    const int i = block * kStagingThreads + threadIdx.x;
    if (i >= total) return;
    int rest, octet, tile, step;
    by_octets.divmod(i / 64, rest, octet);
    const int tap = rest % kTaps;
    by_steps.divmod(rest / kTaps, tile, step);
    const int k = (tile * int(by_octets.divisor) + octet) * 8 + i / 4 % 8;
    const int c = step * 8 + i / 32 % 2 * 4 + i % 4;
    const bool inside = k < filters && c < channels;
    to[i] = inside ? tf32_rounded(from[(size_t(k) * channels + c) * kTaps + tap]) : 0.f;
  }

 private:
  static constexpr int kTaps = 9;
};

struct NothingStaged {
  static constexpr int blocks = 0;
  __device__ __forceinline__ void stage(int) const {}
};

}  // namespace duet
