// What kernels that write an image leave of its moments (core/channel_moments.h), and who combines them.
#pragma once

#include "core/channel_moments.h"
#include "kernels/moments.cuh"

namespace duet {

/// How parts of so many values are joined, as joined() does it: the same for several channels.
struct JoinShares {
  float share, weight;  // of the second mean, and of the squared difference

  /// `count`, of the first, becomes that of both.
  __device__ __forceinline__ JoinShares(float& count, float second) {
    const float both = count + second;
    share = both > 0.f ? second / both : 0.f;
    weight = count * share;
    count = both;
  }
  __device__ __forceinline__ void join(float& mean, float& squares, float second_mean,
                                       float second_squares) const {
    const float difference = second_mean - mean;
    mean += difference * share;
    squares += second_squares + difference * weight * difference;
  }
};

/// What a thread, or several, found of `rows` channels that have the same values.
template <int rows>
struct RowMoments {
  float count = 0.f;
  float mean[rows] = {}, squares[rows] = {};

  __device__ __forceinline__ void join(float second, const float (&second_mean)[rows],
                                       const float (&second_squares)[rows]) {
    const JoinShares shares(count, second);
#pragma unroll
    for (int i = 0; i < rows; ++i)
      shares.join(mean[i], squares[i], second_mean[i], second_squares[i]);
  }
  /// Of the four lanes of a quad: the first has all then.
  __device__ __forceinline__ void join_quad() {
#pragma unroll
    for (int bit = 1; bit <= 2; bit *= 2) {
      float other_mean[rows], other_squares[rows];
#pragma unroll
      for (int i = 0; i < rows; ++i) {
        other_mean[i] = __shfl_xor_sync(~0u, mean[i], bit);
        other_squares[i] = __shfl_xor_sync(~0u, squares[i], bit);
      }
      join(__shfl_xor_sync(~0u, count, bit), other_mean, other_squares);
    }
  }
};

/// The moments of values that visit(look) shows twice, calling look(value) for each of `count`: the mean, and then
/// squares about it, so that nothing cancels.
template <class Visit>
__device__ __forceinline__ void look_twice(float count, Visit visit, float& mean, float& squares) {
  mean = squares = 0.f;
  visit([&](float value) { mean += value; });
  mean *= count > 0.f ? 1.f / count : 0.f;
  visit([&](float value) { squares += (value - mean) * (value - mean); });
}

/// A value as T stores it.
template <class T>
__device__ __forceinline__ float as_stored(float value) {
  return static_cast<float>(T(value));
}

__device__ __forceinline__ void leave_moments(const ChannelMoments& to, int channel, int part,
                                              float mean, float squares) {
  reinterpret_cast<float2*>(to.sums)[size_t(channel) * to.parts + part] = {mean, squares};
}

}  // namespace duet
