// Two sums of each channel, for all channels of a thread at once: moments, and what backward needs.
#pragma once

#include "layers/batch_norm/batch_norm_kernels.cuh"

namespace duet::batch_norm {

inline constexpr int kMostColumns = 128;  // channels of a block
template <class F>
constexpr int kColumnsOf = F::kChannels == 1 ? 32 : kMostColumns;

/// Two sums of each of so many channels, whose values are equally many.
template <int channels>
struct ChannelSums {
  float count = 0.0f;
  float first[channels] = {}, second[channels] = {};
};
/// Plain ones: of dy, and of dy * z.
struct AddSums {
  template <int channels>
  __device__ __forceinline__ void operator()(ChannelSums<channels>& a,
                                             const ChannelSums<channels>& b) const {
#pragma unroll
    for (int k = 0; k < channels; ++k) {
      a.first[k] += b.first[k];
      a.second[k] += b.second[k];
    }
  }
};
/// Means, and sums of the squares of what differs from them, as joined() has them: with one division for all.
struct JoinMoments {
  template <int channels>
  __device__ __forceinline__ void operator()(ChannelSums<channels>& a,
                                             const ChannelSums<channels>& b) const {
    const float count = a.count + b.count, share = count > 0.0f ? b.count / count : 0.0f;
    const float weight = a.count * share;
#pragma unroll
    for (int k = 0; k < channels; ++k) {
      const float difference = b.first[k] - a.first[k];
      a.first[k] += difference * share;
      a.second[k] += b.second[k] + difference * weight * difference;
    }
    a.count = count;
  }
};

template <class F>
__device__ __forceinline__ ChannelSums<F::kChannels> parts_of(const Sums (&sums)[F::kChannels]) {
  ChannelSums<F::kChannels> parts;
#pragma unroll
  for (int k = 0; k < F::kChannels; ++k) {
    parts.first[k] = sums[k].dy;
    parts.second[k] = sums[k].product;
  }
  return parts;
}
/// And back.
template <int channels>
__device__ __forceinline__ void take_sums(const ChannelSums<channels>& parts,
                                          Sums (&sums)[channels]) {
#pragma unroll
  for (int k = 0; k < channels; ++k) sums[k] = {parts.first[k], parts.second[k]};
}

/// Adds the vectors of x to the moments of the thread's channels.
template <class F, class Values, int count>
__device__ __forceinline__ void add_vectors(const int (&offsets)[count], const Values& x,
                                            ChannelSums<F::kChannels>& moments) {
  ChannelSums<F::kChannels> batch;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (offsets[i] < 0) continue;
    batch.count += F::kPlanes ? F::V : 1;
    const Vector<float, F::V> values = x[i];
#pragma unroll
    for (int k = 0; k < F::V; ++k) batch.first[F::channel_of(k)] += values.v[k];
  }
  const float share = batch.count > 0.0f ? 1.0f / batch.count : 0.0f;
#pragma unroll
  for (float& sum : batch.first) sum *= share;
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if (offsets[i] < 0) continue;
    const Vector<float, F::V> values = x[i];
#pragma unroll
    for (int k = 0; k < F::V; ++k) {
      const int i = F::channel_of(k);
      const float difference = values.v[k] - batch.first[i];
      batch.second[i] += difference * difference;
    }
  }
  JoinMoments()(moments, batch);
}

/// Combines what the block's threads have of their channels; thread t gets channel t of the block.
template <class F, class Combine>
__device__ __forceinline__ ChannelSums<1> combine_columns(const Walk& walk,
                                                          ChannelSums<F::kChannels>& values,
                                                          Combine combine) {
  constexpr int kColumns = kColumnsOf<F>;
  __shared__ float2 sums[kCombineWarps][kColumns];
  __shared__ float counts[kCombineWarps];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int step = walk.lanes; step < 32; step *= 2) {
    const auto other = shuffle_xor(values, step);
    combine(values, other);
  }
  __syncthreads();  // they may still be read from the call before
  if (lane < walk.lanes) {
#pragma unroll
    for (int k = 0; k < F::kChannels; ++k) {
      sums[warp][lane * F::kChannels + k] = {values.first[k], values.second[k]};
    }
  }
  if (lane == 0) counts[warp] = values.count;
  __syncthreads();
  ChannelSums<1> sum;
  if (threadIdx.x < walk.lanes * F::kChannels) {
#pragma unroll
    for (int w = 0; w < kCombineWarps; ++w) {
      const float2 part = sums[w][threadIdx.x];
      combine(sum, ChannelSums<1>{counts[w], {part.x}, {part.y}});
    }
  }
  return sum;
}

}  // namespace duet::batch_norm
