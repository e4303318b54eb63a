// What kernels that write an image leave of its moments (core/channel_moments.h), and who combines them.
#pragma once

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
  T both[2];

  StoredPair() = default;
  __device__ __forceinline__ StoredPair(float a, float b) : both{T(a), T(b)} {}
  __device__ __forceinline__ T stored(int i) const { return both[i]; }
  __device__ __forceinline__ float operator[](int i) const { return static_cast<float>(both[i]); }
};
template <>
struct StoredPair<bfloat16> {
  uint32_t both;

  StoredPair() = default;
  __device__ __forceinline__ StoredPair(float a, float b) {
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(b), "f"(a));
#else
    both = bfloat16(a).bits | uint32_t{bfloat16(b).bits} << 16;
#endif
  }
  __device__ __forceinline__ bfloat16 stored(int i) const {
    bfloat16 value;
    value.bits = uint16_t(both >> 16 * i);
    return value;
  }
  __device__ __forceinline__ float operator[](int i) const {
    return __uint_as_float(i == 0 ? both << 16 : both & 0xffff0000u);
  }
};

/// What a thread finds of `rows` channels, one look at a value, as many values of each. Squares are about a channel's first
/// value. Where that is d standard deviations from the mean, they lose a share of 6e-8 d^2: nothing of note while it is
/// an image's pixel like others.
template <int rows>
struct SumsAboutFirst {
  float count = 0.f;  // the caller adds to it, behind the values
  float first[rows], sums[rows] = {}, squares[rows] = {};

  /// The next to come; what it is matters for the very first.
  __device__ __forceinline__ void begin(int i, float value) {
    if (count == 0.f) first[i] = value;
  }
  __device__ __forceinline__ void add(int i, float value) {
    const float difference = value - first[i];
    sums[i] += difference;
    squares[i] += difference * difference;
  }
  __device__ __forceinline__ RowMoments<rows> moments() const {
    RowMoments<rows> all;
    if (count == 0.f) return all;
    all.count = count;
#pragma unroll
    for (int i = 0; i < rows; ++i) {
      const float mean = sums[i] / count, about_mean = squares[i] - mean * sums[i];
      all.mean[i] = first[i] + mean;
      all.squares[i] = about_mean < 0.f ? 0.f : about_mean;
    }
    return all;
  }
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
