// A network in training: the data, the network, the optimizer and the step that joins them. It
// computes only; files, logs and signals are trainer.h's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/step_state.h"
#include "data/batches.h"
#include "data/dataset.h"
#include "device/step_graph.h"
#include "net/net.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/evaluation.h"

namespace duet {

class Training {
 public:
  /// Plans and takes all memory, uploads the data and starts from initial values. `dataset` may go
  /// afterwards; `context` must outlive this. Throws ConfigError if the batch is larger than the
  /// data.
  Training(const NetSpec& spec, const std::vector<ResolvedLayer>& layers, const Dataset& dataset,
           std::unique_ptr<Optimizer> optimizer, const Schedule& schedule, Context& context);

  /// Runs every kernel once without changing anything and, with `graph: true` on a GPU, captures
  /// the step and the evaluation. Called before the first step.
  void prepare();

  Training(const Training&) = delete;  // operations() refer to this
  Training& operator=(const Training&) = delete;

  /// Queues one training step: gather, forward, backward, update, advance. Reads nothing back.
  void step();
  int64_t steps_per_epoch() const { return train_batches_.per_epoch(); }

  /// Reads the state back (waits for the queued steps).
  StepState state();
  /// The learning rate is that of the step.
  void set_state(const StepState& state);
  /// Starts new totals; the step number stays.
  void clear_totals();

  /// One pass over the validation data, dropout off.
  Metrics evaluate() { return evaluation_.run(); }
  /// The same batch by batch, for timing (evaluation.h).
  void evaluation_step() { evaluation_.step(); }
  void restart_evaluation() { evaluation_.restart(); }
  StepState evaluation_state() { return evaluation_.state(); }

  /// Device memory taken for all of it: network, data, optimizer, state. What CUDA and the
  /// libraries take for themselves is not known here.
  size_t memory_bytes() const;

  /// Where the loss of the next step stops being finite, in words. Runs that step without the
  /// optimizer.
  std::string explain_halt();

  /// A part of a step, which can also be queued by itself.
  struct Operation {
    std::string layer;  // a layer's name, or "batch", "update", "advance"
    std::string pass;
    std::string implementation;
    std::string problem;  // of a layer
    size_t workspace_bytes = 0;
    std::function<void()> queue;
  };
  /// All of a step, in the order they run.
  const std::vector<Operation>& operations() const { return operations_; }
  /// True if step() replays a graph.
  bool has_graph() const { return static_cast<bool>(step_graph_); }
  /// Queues one step call by call even so.
  void queue_step();
  /// Queues one call of net() as the step does.
  void run(const Net::Call& call) { net_.run(call, {.step = step_number()}); }

  Net& net() { return net_; }
  Weights& weights() { return weights_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const ScheduleRule& schedule() const { return schedule_; }
  /// The optimizer's state number i, laid out as weights().trained().
  const Tensor& optimizer_state(size_t i) const { return optimizer_tensors_.state[i]; }
  Context& context() const { return context_; }

 private:
  void list_operations();
  void queue_forward_backward();
  const uint64_t* step_number() { return &device_state(state_)->step; }
  StepState* device_state(const Buffer& buffer) { return static_cast<StepState*>(buffer.data()); }

  Context& context_;
  const bool use_graph_;
  Weights weights_;
  Net net_;
  std::unique_ptr<Optimizer> optimizer_;
  Batches train_batches_;
  ScheduleRule schedule_;
  Evaluation evaluation_;  // of the validation data
  OptimizerTensors optimizer_tensors_;
  std::vector<Buffer> optimizer_memory_;
  Buffer state_;  // StepState of the training
  std::vector<Operation> operations_;
  StepGraph step_graph_;
};

/// "conv1 forward", "update"
std::string name_of(const Training::Operation& operation);

}  // namespace duet
