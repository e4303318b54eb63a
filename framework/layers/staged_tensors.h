// Tensors in another order, which a pass makes before it multiplies: where other passes of the layer need the same, the first
// makes them for all.
#pragma once

#include "core/channel_moments.h"
#include "layers/implementation.h"

namespace duet {

/// x of forward and backward_filter, dy of both backward passes, and w of forward and backward_data; falsy where each pass
/// makes its own.
struct StagedTensors {
  Tensor x, dy, w;
};
struct StagedBytes {
  size_t x = 0, dy = 0, w = 0;
};

/// What an Implementation may be besides: one whose passes can share staged tensors, also with another's of the same layer.
/// So the form of each is one for the layer type; conv2d's x and dy have their channels last, and its w is a matrix
/// [k][(r,s,c)] in the type of x, all with channels padded by zeros to whole 16 bytes.
class SharesStaged {
 public:
  /// Of the tensors that `pass` needs in that form, in this problem; 0 of others. Who leaves one and who takes it must say the same. After prepare(pass) always the same.
  virtual StagedBytes staged_bytes(Pass pass) const = 0;
  /// Queues run(pass), or forward_with_moments() where `moments` have parts, to the same bits. Forward leaves x and w in
  /// `staged`, and backward_filter dy, before all that it queues aside (device/side_stream.h); others take them from there.
  virtual void run_sharing(Pass pass, const Run& run, const LayerTensors& t,
                           const StagedTensors& staged, const ChannelMoments& moments) = 0;

 protected:
  ~SharesStaged() = default;
};

}  // namespace duet
