// Mean and variance of an image's channels, in parts as whoever writes the image finds them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace duet {

/// The moments of N x C x H x W values by channel, in `parts`, each of some of N, H and W and the same of every
/// channel. Memory is somebody else's, on the device of the values.
struct ChannelMoments {
  int parts = 0;  // 0: there are none
  float* sums =
      nullptr;  // [channels][parts][2]: the mean, and the sum of squares of what differs from it
  float* counts = nullptr;  // [parts]: values of a channel; of a part of none the sums are 0

  static size_t bytes(int64_t channels, int parts) {
    return (2 * static_cast<size_t>(channels) + 1) * static_cast<size_t>(parts) * sizeof(float);
  }
  /// In memory of so many bytes.
  static ChannelMoments at(void* memory, int64_t channels, int parts) {
    auto* const sums = static_cast<float*>(memory);
    return {parts, sums, sums + 2 * static_cast<size_t>(channels) * static_cast<size_t>(parts)};
  }
};

}  // namespace duet
