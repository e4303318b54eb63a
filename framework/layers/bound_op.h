// An implementation made for one layer: what networks, checks, timers, written programs and Python run.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// Notes itself in Running (core/running.h) while it is made, prepared or run.
class BoundOp {
 public:
  /// Makes implementation `id` of the layer's list. `name` is the layer's in a network: errors of a run
  /// are rethrown with it. REQUIRES: the layer and the context outlive this.
  BoundOp(const Layer& layer, std::string_view id, Context& context, std::string_view name = {});
  /// Takes an implementation that is in no list.
  BoundOp(const Layer& layer, std::string_view id, Context& context,
          std::unique_ptr<Implementation> implementation);

  const Layer& layer() const { return layer_; }
  const std::string& id() const { return id_; }
  Implementation& implementation() { return *implementation_; }

  /// Once for each pass that will run, and before the sizes are asked for. REQUIRES: `id` supports it.
  void prepare(Pass pass);
  void prepare(const std::vector<Pass>& passes) {
    for (Pass pass : passes) prepare(pass);
  }
  size_t workspace_bytes(Pass pass) const { return implementation_->workspace_bytes(pass); }
  /// The largest of these passes.
  size_t workspace_bytes(const std::vector<Pass>& passes) const {
    size_t bytes = 0;
    for (Pass pass : passes) bytes = std::max(bytes, workspace_bytes(pass));
    return bytes;
  }
  /// The size that LayerTensors::state must have.
  size_t state_bytes() const { return implementation_->state_bytes(); }
  std::string detail(Pass pass) const { return implementation_->detail(pass); }
  SavedTensors reads(Pass pass) const { return implementation_->reads(pass); }
  std::vector<std::string> calls(Pass pass) const { return implementation_->calls(pass); }
  std::vector<PortUse> ports(Pass pass, bool inference) const {
    return implementation_->ports(pass, inference);
  }

  void prepare_weights(const Run& run, const LayerTensors& tensors);
  /// Without a name, throws what the implementation throws. With a name, throws DeviceError with the
  /// layer, id, pass and problem instead of a DeviceError or an exception that is no duet::Error, other
  /// than std::bad_alloc; and also if the implementation leaves a CUDA error behind.
  void run(Pass pass, const Run& run, const LayerTensors& tensors);

 private:
  void run_named(Pass pass, const Run& run, const LayerTensors& tensors);

  const Layer& layer_;
  const std::string id_, name_;
  Context& context_;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace duet
