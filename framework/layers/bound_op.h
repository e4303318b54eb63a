// An implementation made for one layer: what networks, checks, timers, written programs and Python run.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/layer.h"

namespace duet {

/// While it is made, is prepared or runs, it is what Running says (core/running.h).
class BoundOp {
 public:
  /// Makes implementation `id` of the layer's list. `name` is the layer's in a network: errors of a run
  /// are rethrown with it. REQUIRES: the layer and the context outlive this.
  BoundOp(const Layer& layer, std::string_view id, Context& context, std::string_view name = {});
  /// The same of one that no list has.
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
  /// The most of these passes.
  size_t workspace_bytes(const std::vector<Pass>& passes) const {
    size_t bytes = 0;
    for (Pass pass : passes) bytes = std::max(bytes, workspace_bytes(pass));
    return bytes;
  }
  /// LayerTensors::state is to have so many.
  size_t state_bytes() const { return implementation_->state_bytes(); }
  std::string detail(Pass pass) const { return implementation_->detail(pass); }
  SavedTensors reads(Pass pass) const { return implementation_->reads(pass); }
  std::vector<std::string> calls(Pass pass) const { return implementation_->calls(pass); }
  std::vector<PortUse> ports(Pass pass, bool inference) const {
    return implementation_->ports(pass, inference);
  }

  void prepare_weights(const Run& run, const LayerTensors& tensors);
  /// Throws what the implementation throws, and with a name DeviceError in its place, but for errors
  /// that say where they come from themselves (Error) and for want of memory. With a name a CUDA error
  /// that the implementation leaves behind is one too.
  void run(Pass pass, const Run& run, const LayerTensors& tensors);

 private:
  void run_named(Pass pass, const Run& run, const LayerTensors& tensors);

  const Layer& layer_;
  const std::string id_, name_;
  Context& context_;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace duet
