// The part of a staging launch (mma_staging.cuh) that writes weights as kernels/wgmma_blocks.cuh multiplies them, rounded to tf32.
#pragma once

#include "layers/conv2d/mma_staging.cuh"

namespace duet {

/// Weights KCRS of 3x3 filters as wgmma_blocks.cuh multiplies them, by tiles of so many output channels: in steps of eight terms
/// [tile][step][tap][octet of output channels][four terms][output channel][term]. Output channels are filters and terms channels,
/// or for backward_data the other way round and taps from the last on. In fp32 they are staged as they are and, behind those of a
/// step, their rests (wgmma_split.cuh).
struct BlockWeightPart {
  const float* from;
  bool turned, split;
  int outputs, terms, channels;
  float* to;
  FastDivisor by_octets, by_steps;
  int total, blocks;

  BlockWeightPart(const float* w, const Conv2dProblem& d, bool turned_, int tile, float* to_)
      : from(w),
        turned(turned_),
        split(d.math == Math::kFP32),
        outputs(turned ? d.c : d.k),
        terms(turned ? d.k : d.c),
        channels(d.c),
        to(to_),
        by_octets(tile / 8),
        by_steps(ceil_div(terms, 8)),
        total(elements(d, turned, tile)),
        blocks(ceil_div(total, kStagingThreads)) {}
  static int elements(const Conv2dProblem& d, bool turned, int tile) {
    return round_up(turned ? d.c : d.k, tile) * kTaps * round_up(turned ? d.k : d.c, 8) *
           (d.math == Math::kFP32 ? 2 : 1);
  }

  __device__ __forceinline__ void stage(int block) const {
    const int i = block * kStagingThreads + threadIdx.x;
    if (i >= total) return;
    int rest, octet, tile, step;
    by_octets.divmod(i / 64, rest, octet);
    const int tap = rest % kTaps, parts = split ? 2 : 1;
    const bool is_rest = rest / kTaps % parts > 0;
    by_steps.divmod(rest / kTaps / parts, tile, step);
    const int output = (tile * int(by_octets.divisor) + octet) * 8 + i / 4 % 8;
    const int term = step * 8 + i / 32 % 2 * 4 + i % 4;
    const int k = turned ? term : output, c = turned ? output : term;
    const bool inside = output < outputs && term < terms;
    const float value =
        inside ? from[(size_t(k) * channels + c) * kTaps + (turned ? kTaps - 1 - tap : tap)] : 0.f;
    const float cut = value - __uint_as_float(__float_as_uint(value) & 0xffffe000u);
    to[i] = is_rest ? tf32_rounded(cut) : split ? value : tf32_rounded(value);
  }

 private:
  static constexpr int kTaps = 9;
};

struct NothingStaged {
  static constexpr int blocks = 0;
  __device__ __forceinline__ void stage(int) const {}
};

}  // namespace duet
