// Sums over channels that several blocks share: each leaves its part in the workspace, and each block
// of the next launch combines those of its channels.
#pragma once

#include "kernels/moments.cuh"
#include "layers/batch_norm/batch_norm_kernels.cuh"

namespace duet::batch_norm {

/// Adds a vector to the moments of the thread's channels, which have the same count.
template <class F>
__device__ __forceinline__ void add_vector(const Vector<float, F::V>& x,
                                           Moments (&moments)[F::kChannels]) {
  if constexpr (F::kPlanes && F::V == 4) {  // all of one channel: their own moments first
    const float mean = 0.25f * ((x.v[0] + x.v[1]) + (x.v[2] + x.v[3]));
    float squares = 0.0f;
#pragma unroll
    for (int k = 0; k < F::V; ++k) squares += (x.v[k] - mean) * (x.v[k] - mean);
    moments[0] = joined(moments[0], {4.0f, mean, squares});
  } else {
    const float count = moments[0].count + 1.0f, share = 1.0f / count;
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      Moments& m = moments[k];
      const float difference = x.v[k] - m.mean;
      m.count = count;
      m.mean += difference * share;
      m.squares += difference * (x.v[k] - m.mean);
    }
  }
}

/// `partial` has a T of each split and channel: [splits][channels].
template <class F, class T>
__device__ __forceinline__ void keep_partial(const Walk& walk, const T (&values)[F::kChannels],
                                             T* partial) {
  const int c = first_channel<F>(walk);
  if (threadIdx.x >= walk.lanes || c >= walk.channels) return;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) partial[blockIdx.y * walk.channels + c + k] = values[k];
}

/// Those of all splits, combined; every block comes to the same bits.
template <class F, class T, class Combine>
__device__ __forceinline__ void combine_partial(const Walk& walk, const T* partial, Combine combine,
                                                T (&values)[F::kChannels]) {
  const int c = first_channel<F>(walk);
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    T value = {};
    if (c < walk.channels) {
      for (int split = threadIdx.x / walk.lanes; split < walk.splits;
           split += kThreads / walk.lanes) {
        value = combine(value, partial[split * walk.channels + c + k]);
      }
    }
    values[k] = block_combine(value, walk.lanes, combine);
  }
}

/// Leaves the moments of every split and channel.
template <class F>
static __global__ void __launch_bounds__(kThreads)
    batch_norm_moments_welford_kernel(Walk walk, const typename F::Value* x, Moments* partial) {
  wait_for_primary();
  Moments moments[F::kChannels] = {};
  for_each<F>(walk, [&](int offset) { add_vector<F>(load<F::V>(x + offset), moments); });
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) moments[k] = block_combine(moments[k], walk.lanes, joined);
  keep_partial<F>(walk, moments, partial);
}

/// The statistics of a batch whose moments batch_norm_moments_welford_kernel left; kept where
/// batch normalisation keeps them.
template <class F>
__device__ __forceinline__ Statistics<F> statistics_of_moments(
    const Walk& walk, const Moments* partial, const Forward<typename F::Value>& t) {
  Moments moments[F::kChannels];
  combine_partial<F>(walk, partial, joined, moments);
  Statistics<F> s;
  float var[F::kChannels];
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    var[k] = moments[k].squares / walk.count;
    s.mean[k] = moments[k].mean;
    s.inverse[k] = 1.0f / sqrtf(var[k] + walk.eps);
  }
  keep<F>(walk, t, s, var);
  return s;
}

}  // namespace duet::batch_norm
