// Images eight side by side in shared memory, as products by wgmma read them whose sums run over images and positions, or whose rows
// are images.
#pragma once

#include "kernels/integers.cuh"

namespace duet {

struct ImageBlocks {
  static constexpr int kImages = 8, kChannels = 64;
  /// Of float, in floats, from pixel to pixel: eight channels of four images lie together, 128 bytes, then the next four images, then
  /// the next eight channels. Neighbouring pixels begin in different banks.
  static constexpr int kPitch = kImages * kChannels + 4;
  /// Codes of a window (packed_argmax.cuh), in words: [octet of filters][image].
  static constexpr int kCodePitch = kImages * kChannels / 8 + 4;
};

}  // namespace duet
