// Forward passes of inference, whose weights stay as they are from batch to batch.
#pragma once

#include "layers/layer.h"

namespace duet {

/// What an Implementation may be besides: one whose forward gains where the parameters are at rest. It may have made what
/// depends on them alone (rounded copies, another order) before, and its kernels may read them before
/// wait_for_primary(), as nothing that is queued around it writes them.
/// A Net owns the prepared memory and says when parameters rest (net/net.h); this keeps nothing.
class ForwardAtRest {
 public:
  /// Of what prepare_weights() makes.
  virtual size_t prepared_bytes() const { return 0; }
  /// Queues the making of it from t.w.
  virtual void prepare_weights(const Run&, const LayerTensors& /*t*/, void* /*prepared*/) {}
  /// run(Pass::kForward) with the same results, bit for bit, from what prepare_weights() made of t.w as it is.
  virtual void forward_at_rest(const Run& run, const LayerTensors& t, const void* prepared) = 0;

 protected:
  ~ForwardAtRest() = default;
};

}  // namespace duet
