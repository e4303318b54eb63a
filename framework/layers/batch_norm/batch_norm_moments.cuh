// Sums over channels that several blocks share: each leaves its part in the workspace, and each block
// of the next launch combines those of its channels.
#pragma once

#include "kernels/moments.cuh"
#include "layers/batch_norm/batch_norm_kernels.cuh"

namespace duet::batch_norm {

/// Adds a batch to the moments of the thread's channels: first its own, with one division for all its
/// values.
template <class F, class Values, int count>
__device__ __forceinline__ void add_batch(const int (&offsets)[count], const Values& x,
                                          Moments (&moments)[F::kChannels]) {
  float sums[F::kChannels] = {}, squares[F::kChannels] = {};
  int vectors = 0;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (offsets[i] < 0) continue;
    ++vectors;
#pragma unroll
    for (int k = 0; k < F::V; ++k) sums[F::channel_of(k)] += x[i].v[k];
  }
  const auto values = static_cast<float>(vectors * (F::kPlanes ? F::V : 1));
  const float share = vectors > 0 ? 1.0f / values : 0.0f;
#pragma unroll
  for (float& sum : sums) sum *= share;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (offsets[i] < 0) continue;
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const float difference = x[i].v[k] - sums[F::channel_of(k)];
      squares[F::channel_of(k)] += difference * difference;
    }
  }
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    moments[k] = joined(moments[k], {values, sums[k], squares[k]});
  }
}

/// `partial` has a T of each split and channel: [splits][channels].
template <class F, class T>
__device__ __forceinline__ void keep_partial(const Walk& walk, const T (&values)[F::kChannels],
                                             T* partial) {
  const int c = first_channel<F>(walk);
  if (threadIdx.x >= walk.lanes || c >= walk.channels) return;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) partial[walk.split() * walk.channels + c + k] = values[k];
}

/// Past L1: another block of this launch may have written it.
template <class T>
__device__ __forceinline__ T load_partial(const T* from) {
  static_assert(sizeof(T) % sizeof(float) == 0);
  T value;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T) / sizeof(float)); ++i) {
    reinterpret_cast<float*>(&value)[i] = __ldcg(reinterpret_cast<const float*>(from) + i);
  }
  return value;
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
#pragma unroll 4
      for (int split = threadIdx.x / walk.lanes; split < walk.splits;
           split += kThreads / walk.lanes) {
        value = combine(value, load_partial(partial + split * walk.channels + c + k));
      }
    }
    values[k] = block_combine(value, walk.lanes, combine);
  }
}

/// Leaves the moments of the block's split and channels.
template <class F>
__device__ __forceinline__ void keep_moments(const Walk& walk, const typename F::Value* x,
                                             Moments* partial) {
  Moments moments[F::kChannels] = {};
  for_each_batch<kTogether<F>, F>(walk, [&]<int count>(const int(&offsets)[count]) {
    add_batch<F>(offsets, Batch<F, count>(x, offsets), moments);
  });
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) moments[k] = block_combine(moments[k], walk.lanes, joined);
  keep_partial<F>(walk, moments, partial);
}

/// The statistics of a batch of those moments; kept where batch normalisation keeps them.
template <class F>
__device__ __forceinline__ Statistics<F> statistics_of(const Walk& walk,
                                                       const Moments (&moments)[F::kChannels],
                                                       const Forward<typename F::Value>& t) {
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
/// The same of those that keep_moments() left.
template <class F>
__device__ __forceinline__ Statistics<F> statistics_of_moments(
    const Walk& walk, const Moments* partial, const Forward<typename F::Value>& t) {
  Moments moments[F::kChannels];
  combine_partial<F>(walk, partial, joined, moments);
  return statistics_of<F>(walk, moments, t);
}

}  // namespace duet::batch_norm
