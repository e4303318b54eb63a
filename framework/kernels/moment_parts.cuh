// What kernels that write an image leave of its moments (core/channel_moments.h), and who combines them.
#pragma once

#include <type_traits>

#include "core/bfloat16.h"
#include "core/channel_moments.h"
#include "kernels/moments.cuh"

namespace duet {

/// How parts of so many values are joined, as joined() does it: the same for several channels.
struct JoinShares {
  float share, weight;  // of the second mean, and of the squared difference

  /// `count`, of the first, becomes that of both.
  __device__ __forceinline__ JoinShares(float& count, float second) {
    const float both = count + second;
    share = both > 0.f ? __fdividef(second, both) : 0.f;
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

/// The moments of values that visit(look) shows twice, calling look(value) for each; `share`: 1 of how many they are. The
/// mean first, and then squares about it, so that nothing cancels.
template <class Visit>
__device__ __forceinline__ void look_twice(float share, Visit visit, float& mean, float& squares) {
  mean = squares = 0.f;
  visit([&](float value) { mean += value; });
  mean *= share;
  visit([&](float value) { squares += (value - mean) * (value - mean); });
}

/// Two values as T stores them: of bfloat16 by one instruction, as one value alone takes eight times as long.
template <class T>
struct StoredPair {
  T value[2];

  __device__ __forceinline__ StoredPair(float a, float b) {
#if __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<T, bfloat16>) {
      uint32_t both;
      asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
      value[0].bits = uint16_t(both);
      value[1].bits = uint16_t(both >> 16);
      return;
    }
#endif
    value[0] = T(a);
    value[1] = T(b);
  }
  __device__ __forceinline__ float operator[](int i) const { return static_cast<float>(value[i]); }
};

__device__ __forceinline__ void leave_moments(const ChannelMoments& to, int channel, int part,
                                              float mean, float squares) {
  reinterpret_cast<float2*>(to.sums)[size_t(channel) * to.parts + part] = {mean, squares};
}

/// What warps, in shared memory, found of the same channels, each of its own values.
template <int warps, int channels>
struct WarpMoments {
  float2 of[warps][channels];  // mean and squares
  float counts[warps];

  /// By one thread a channel, which is `first` + `i`: all warps joined, left as `part`.
  __device__ __forceinline__ void leave(const ChannelMoments& to, int first, int i,
                                        int part) const {
    Moments all = {};
#pragma unroll
    for (int w = 0; w < warps; ++w) all = joined(all, {counts[w], of[w][i].x, of[w][i].y});
    leave_moments(to, first + i, part, all.mean, all.squares);
    if (first + i == 0) to.counts[part] = all.count;
  }
};

}  // namespace duet
