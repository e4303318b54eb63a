// Mean and variance of an image's channels, in parts as whoever writes the image finds them.
#pragma once

#include "core/tensor.h"

namespace duet {

/// The moments of N x C x H x W values by channel, in `parts`, each of some of N, H and W and the same of every
/// channel. Memory is somebody else's, on the device of the values.
struct ChannelMoments {
  int parts = 0;  // 0: there are none
  float* sums =
      nullptr;  // [channels][parts][2]: the mean, and the sum of squares of what differs from it
  float* counts = nullptr;  // [parts]: values of a channel; of a part of none the sums are 0

  /// The tensor in which moments are stored.
  static TensorDesc desc(int64_t channels, int parts) { return {{2 * channels + 1, parts}}; }
  /// The moments in `memory`, a tensor of desc(); no parts if it is falsy.
  static ChannelMoments at(const Tensor& memory) {
    if (!memory) return {};
    auto* const sums = memory.data<float>();
    const Shape& shape = memory.desc.shape;
    return {static_cast<int>(shape[1]), sums, sums + (shape[0] - 1) * shape[1]};
  }
};

}  // namespace duet
