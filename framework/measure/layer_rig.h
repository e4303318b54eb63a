// One implementation of a layer in memory whose surroundings are watched: it gets exactly the
// buffers it asked for, each between guard bands, and what it must not change is compared
// afterwards.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "measure/guarded_buffer.h"
#include "measure/layer_data.h"

namespace duet {

/// The id by which a rig makes what layers/gpu_reference.h has for its layer, in double.
inline constexpr std::string_view kGpuReference = "gpu_reference";

class LayerRig {
 public:
  /// Makes implementation `id` for `layer` and prepares `passes`. REQUIRES: the layer and the
  /// context outlive this, `id` supports the passes, and no other rig of the same context is in
  /// use between load() or reset() and the end of a run. Every buffer lies between guards of
  /// `guard_bytes`, a workspace between wider ones.
  LayerRig(const Layer& layer, std::string_view id, const std::vector<Pass>& passes,
           Context& context, const LayerSituation& situation,
           size_t guard_bytes = GuardedBuffer::kGuardBytes);

  const Layer& layer() const { return layer_; }
  const std::string& id() const { return id_; }
  Context& context() { return context_; }
  Implementation& implementation() { return *impl_; }

  /// What reset() starts from, in memory order of the layer; resets.
  void load(const LayerData& data);
  /// Inputs and parameters as loaded; outputs, gradients, state and workspaces poisoned.
  void reset();
  /// Loads other data and leaves outputs, state and workspaces as they are, as from one step of a
  /// training to the next.
  void renew(const LayerData& data);
  /// Queues poisoning what `pass` writes. Buffers that it updates are as loaded again.
  void queue_poison(Pass pass);
  /// Poisons the workspaces of all passes: what one leaves there does not survive it.
  void poison_workspaces();
  /// What y is for a backward pass whose forward pass this implementation cannot run.
  void set_y(const std::vector<NamedValues>& y);

  /// Runs a pass, watched, its workspace poisoned; inputs whose index is in `without_dx` get a
  /// falsy dx. Waits for the device.
  void run(Pass pass, const std::vector<size_t>& without_dx = {});
  /// Only queues it, as a training step does. REQUIRES: the pass was prepared.
  void queue(Pass pass, const std::vector<size_t>& without_dx = {});
  /// From now on `pass` runs, and what it must leave alone is remembered. Gradients that it does
  /// not write are poisoned for that.
  void watch(Pass pass);
  /// What should have been left alone since watch() and was not, a line each: inputs that were
  /// changed, guards of the workspaces and of all other buffers that were overwritten.
  std::string input_damage() const;
  std::string workspace_damage() const;
  std::string buffer_damage() const;
  std::string damage() const { return input_damage() + workspace_damage() + buffer_damage(); }

  /// What `pass` writes; parameters that forward updates belong to forward.
  std::vector<NamedValues> outputs(Pass pass) const;
  /// The same as raw bytes, to compare runs with each other.
  std::vector<std::vector<std::byte>> output_bytes(Pass pass) const;
  /// Queues a copy of what `pass` wrote to elsewhere on the device; snapshot_bytes() waits for it.
  void queue_snapshot(Pass pass);
  std::vector<std::vector<std::byte>> snapshot_bytes() const;

  /// What `pass` may read: x, w, dy and, in a backward pass, y; and what it writes.
  std::vector<Tensor> read_by(Pass pass) const;
  std::vector<Tensor> written_by(Pass pass) const;
  uint64_t* step() { return static_cast<uint64_t*>(step_.data()); }

  /// Indices of the inputs that have a gradient.
  std::vector<size_t> differentiable_inputs() const;

 private:
  struct Output {
    std::string name;
    bool parameter;
    const GuardedTensor* tensor;
  };
  void upload();
  std::vector<Output> outputs_of(Pass pass) const;
  bool writes(Pass pass, const GuardedTensor& tensor) const;
  std::vector<std::pair<std::string, const GuardedBuffer*>> all_buffers() const;
  LayerTensors tensors(const std::vector<size_t>& without_dx) const;

  const Layer& layer_;
  const std::string id_;
  const LayerSituation situation_;
  Context& context_;
  std::vector<GuardedTensor> x_, y_, dx_, dy_, w_, dw_;
  GuardedBuffer state_, step_;
  std::map<Pass, GuardedBuffer> workspaces_;
  std::vector<std::vector<std::byte>> loaded_x_, loaded_w_, loaded_dy_;
  std::vector<Buffer> loaded_buffers_;  // on the device: of each of w_, empty unless it is updated
  uint64_t loaded_step_ = 0;
  Pass watched_ = Pass::kForward;
  std::vector<std::vector<std::byte>> y_before_;  // a backward pass
  std::vector<Buffer> snapshot_;
  std::unique_ptr<Implementation> impl_;  // goes before the memory that it may still work on
};

}  // namespace duet
