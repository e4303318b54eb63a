// Forward in training where whoever wrote x left its moments (Ports::x_moments): x is read once, to be
// normalised.
//
// In planes a block combines the parts of its channel while its first values come. Where channels are innermost a
// block has many, and all parts of each are as much as it reads of x or more: there a small kernel combines them
// first, a warp a channel.
#pragma once

#include "core/channel_moments.h"
#include "layers/batch_norm/batch_norm_moments.cuh"

namespace duet::batch_norm {

/// Of a channel, by the threads that call it with first = 0, 1 ... step - 1: each some of its parts, as memory has them
/// side by side.
__device__ __forceinline__ Moments some_of_moments(const ChannelMoments& of, int channel, int first,
                                                   int step) {
  const float2* const sums = reinterpret_cast<const float2*>(of.sums) + size_t(channel) * of.parts;
  Moments all = {};
#pragma unroll 4
  for (int part = first; part < of.parts; part += step) {
    const float2 sum = __ldcg(sums + part);
    all = joined(all, {__ldcg(of.counts + part), sum.x, sum.y});
  }
  return all;
}

/// Of the block's channel; kept where batch normalisation keeps them. REQUIRES: F::kPlanes.
template <class F>
__device__ __forceinline__ Statistics<F> given_statistics(const Walk& walk,
                                                          const ChannelMoments& given,
                                                          const Forward<typename F::Value>& t) {
  const Moments some = some_of_moments(given, walk.group(), int(threadIdx.x), kThreads);
  const Moments all[1] = {block_combine(some, 1, joined)};
  return statistics_of<F>(walk, all, t);
}

/// Keeps the statistics of all channels.
template <class T>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_statistics_kernel(Walk walk, ChannelMoments given, Forward<T> t) {
  wait_for_primary();
  const int c = int(blockIdx.x * kThreads + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (c >= walk.channels) return;
  const Moments all = warp_combine(some_of_moments(given, c, lane, 32), 1, joined);
  if (lane > 0) return;
  const float var = all.squares / walk.count;
  keep_state(walk, t, c, all.mean, 1.0f / sqrtf(var + walk.eps));
  keep_buffers(walk, t, c, all.mean, var);
}
template <class T>
void launch_statistics(const Run& run, const Walk& walk, const ChannelMoments& given,
                       const Forward<T>& t) {
  const dim3 grid(ceil_div(walk.channels, kThreads / 32));
  launch_following({grid, kThreads, 0, run.stream()}, batch_norm_statistics_kernel<T>, walk, given,
                   t);
}

template <class F>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_given_kernel(Walk walk, ChannelMoments given, Forward<typename F::Value> t) {
  wait_for_primary();
  normalise<F>(walk, t, [&] { return given_statistics<F>(walk, given, t); });
}

/// Behind batch_norm_statistics_kernel, no block of which ends before all that it follows has been written: x can be
/// read at once.
template <class F>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_normalise_kernel(Walk walk, Forward<typename F::Value> t) {
  normalise<F>(walk, t, [&] {
    wait_for_primary();
    return kept_statistics<F>(walk, t.state);
  });
}

/// In planes clusters are too fast for it where x is small: in bf16 128x64x16x16 takes 7.4 us by its own sums and 5.3 by given
/// moments, 128x128x8x8 3.9 and 5.0, and the convolutions before them take 1.9 and 1.3 longer to leave them; with relu and
/// pooling 128x128x16x16 takes 12.5 and 6.8, and its convolution 3.4 longer (H200). Where channels are innermost moments pay at
/// every size that was measured: 128x64x16x16 21.8 and 11.7, 128x512x2x2 7.3 and 4.5, and 1.6 and 1.0 longer.
inline bool moments_pay(const BatchNormProblem& problem) {
  return !in_planes(problem) || problem.x.bytes() >= size_t{8} << 20;
}

/// The ports of forward in training that takes moments of x in any number of parts.
inline std::vector<PortUse> taken_moments(Pass pass, bool inference,
                                          const BatchNormProblem& problem) {
  if (pass != Pass::kForward || inference) return {};
  return {{&Ports::x_moments, PortUse::Access::kTakes, {}, moments_pay(problem)}};
}

/// CustomImpl that takes moments.
template <class Self>
class CustomOfMoments : public CustomImpl<Self> {
 public:
  using CustomImpl<Self>::CustomImpl;

  std::vector<PortUse> ports(Pass pass, bool inference) const final {
    return taken_moments(pass, inference, this->problem_);
  }
  void forward(const Run& run, const Tensor& x, const BatchNormParameters& w, const Tensor& y,
               const Tensor& state) final {
    if (!run.training || !run.ports.x_moments) {
      return CustomImpl<Self>::forward(run, x, w, y, state);
    }
    const auto given = ChannelMoments::at(run.ports.x_moments);
    const Walk& walk = this->split_walk_;
    with_form(this->problem_, [&](auto form) {
      using F = decltype(form);
      const Forward<typename F::Value> t(x, w, y, state);
      if constexpr (F::kPlanes) {
        launch(walk, walk.splits, run.stream(), batch_norm_given_kernel<F>, walk, given, t);
      } else {
        launch_statistics(run, walk, given, t);
        launch(walk, walk.splits, run.stream(), batch_norm_normalise_kernel<F>, walk, t);
      }
    });
  }
};

}  // namespace duet::batch_norm
