// Forward passes that may take what was made of the parameters before: of inference, and some of training.
#pragma once

#include <stdexcept>

#include "layers/layer.h"

namespace duet {

/// What an Implementation may be besides: one that knows a faster forward for inference, with the same y, bit for bit. It
/// need not keep a state; it may have made before what depends on the parameters alone (rounded copies, another order), and
/// its kernels may read the parameters before wait_for_primary(), as nothing that is queued around it writes them.
/// A Net owns the prepared memory and has it made anew when parameters have changed, or in each captured step of a training
/// (net/net.h); this keeps nothing.
class InferenceForward {
 public:
  /// Of what prepare_weights() makes.
  virtual size_t prepared_bytes() const { return 0; }
  /// Queues the making of it from t.w.
  virtual void prepare_weights(const Run&, const LayerTensors& /*t*/, void* /*prepared*/) {}
  /// Queues the pass. REQUIRES: prepare_weights() has made `prepared` of t.w as it is.
  virtual void infer(const Run& run, const LayerTensors& t, const void* prepared) = 0;

  /// True if a training step may take what is prepared too: infer() as its forward, which then leaves nothing out and reads no
  /// parameter before wait_for_primary(), and backward_data_of_prepared(), with the same dx as backward_data, bit for bit.
  /// prepare_weights() then uses no workspace.
  virtual bool serves_training() const { return false; }
  virtual void backward_data_of_prepared(const Run&, const LayerTensors& /*t*/,
                                         const void* /*prepared*/) {
    throw std::logic_error("serves no training");
  }

 protected:
  ~InferenceForward() = default;
};

}  // namespace duet
