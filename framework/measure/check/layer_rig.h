// One implementation of a layer in memory whose surroundings are watched: it gets exactly the
// buffers it asked for, each between guard bands, and what it must not change is compared
// afterwards. As in a network, all y of a sum (Layer::is_sum) are one in memory, and all its dx.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layers/bound_op.h"
#include "measure/check/guarded_buffer.h"
#include "measure/check/layer_data.h"

namespace duet {

/// The id by which a rig makes what layers/gpu_reference.h has for its layer, in double.
inline constexpr std::string_view kGpuReference = "gpu_reference";

class LayerRig {
 public:
  /// Makes implementation `id` for `layer` and prepares `passes`. REQUIRES: the layer and the
  /// context outlive this, `id` supports the passes, and no other rig of the same context is in
  /// use between load() or reset() and the end of a run. Every buffer lies between `guards`, a
  /// workspace between wider bands.
  LayerRig(const Layer& layer, std::string_view id, const std::vector<Pass>& passes,
           Context& context, const LayerSituation& situation, const Guards& guards = {});

  const Layer& layer() const { return layer_; }
  const std::string& id() const { return op_.id(); }
  Context& context() { return context_; }
  BoundOp& op() { return op_; }

  /// What reset() starts from; resets.
  void load(const LayerData& data);
  /// The same of data that are stored on the context's device already, which several rigs may load.
  void load(std::shared_ptr<const StoredData> data);
  /// Inputs and parameters as loaded; outputs, gradients, state and workspaces poisoned.
  void reset();
  /// Loads other data and leaves outputs, state and workspaces as they are, as from one step of a
  /// training to the next.
  void renew(std::shared_ptr<const StoredData> data);
  /// Queues poisoning what `pass` writes. Buffers that it updates are as loaded again; a graph that
  /// captures this takes them from the data loaded now.
  void queue_poison(Pass pass);
  /// Fills the bands around all buffers and workspaces (GuardedBuffer::surround).
  void surround(GuardedBuffer::Band band);
  /// Poisons the workspaces of all passes: what one leaves there does not survive it.
  void poison_workspaces();
  /// What y is for a backward pass whose forward pass this implementation cannot run, as its
  /// tensors store it on the context's device.
  void set_y(const std::vector<Buffer>& y);

  /// Runs a pass, watched, its workspace poisoned, as are x and y where the implementation does not read
  /// them (Implementation::reads()), until it has run; inputs whose index is in `without_dx` get a
  /// falsy dx. Waits for the device.
  void run(Pass pass, const std::vector<size_t>& without_dx = {});
  /// Only queues it, as a training step does. REQUIRES: the pass was prepared.
  void queue(Pass pass, const std::vector<size_t>& without_dx = {});
  /// From now on `pass` runs, and what it must leave alone is remembered. Gradients that it does
  /// not write are poisoned for that.
  void watch(Pass pass, const std::vector<size_t>& without_dx = {});
  /// What should have been left alone since watch() and was not, a line each: inputs that were
  /// changed, guards of the workspaces and of all other buffers that were overwritten.
  std::string input_damage() const;
  std::string workspace_damage() const;
  std::string buffer_damage() const;
  std::string damage() const { return input_damage() + workspace_damage() + buffer_damage(); }

  /// What `pass` writes; parameters that forward updates belong to forward.
  std::vector<NamedValues> outputs(Pass pass) const;
  /// Memory on the device for what `pass` writes, to compare runs with each other.
  std::vector<Buffer> make_snapshot(Pass pass) const;
  /// Queues a copy of what `pass` wrote. REQUIRES: `to` is make_snapshot(pass)'s.
  void queue_snapshot(Pass pass, const std::vector<Buffer>& to) const;
  /// Whether the outputs are, to the bit, what they were in a snapshot.
  bool holds(Pass pass, const std::vector<Buffer>& snapshot) const;

  /// What `pass` may read: x, w, dy and, in a backward pass, y; and what it writes.
  std::vector<Tensor> read_by(Pass pass) const;
  std::vector<Tensor> written_by(Pass pass) const;
  /// What a run is given.
  LayerTensors tensors(const std::vector<size_t>& without_dx = {}) const;
  uint64_t* step() { return static_cast<uint64_t*>(step_.data()); }

  /// Indices of the inputs that have a gradient.
  std::vector<size_t> differentiable_inputs() const;

 private:
  struct Output {
    std::string name;
    bool parameter;
    const GuardedTensor* tensor;
  };
  void restore();
  void show(std::vector<GuardedTensor>& hidden, const std::vector<Buffer>& values);
  std::vector<Output> outputs_of(Pass pass) const;
  bool may_write(const GuardedTensor& tensor) const;
  std::vector<std::pair<std::string, const GuardedBuffer*>> all_buffers() const;
  const GuardedTensor& y(size_t i) const { return y_[layer_.is_sum() ? 0 : i]; }
  const GuardedTensor& dx(size_t i) const { return dx_[layer_.is_sum() ? 0 : i]; }

  const Layer& layer_;
  const LayerSituation situation_;
  Context& context_;
  std::vector<GuardedTensor> x_, y_, dx_, dy_, w_, dw_;
  GuardedBuffer state_, step_;
  std::map<Pass, GuardedBuffer> workspaces_;
  std::shared_ptr<const StoredData> loaded_;
  Pass watched_ = Pass::kForward;
  std::vector<size_t> without_dx_;  // in the watched pass
  std::vector<Buffer> y_before_;    // a backward pass
  BoundOp op_;                      // goes before the memory that it may still work on
};

}  // namespace duet
