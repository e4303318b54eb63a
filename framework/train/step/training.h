// A network in training: the data, the network, the optimizer and the step that joins them. It
// computes only; files, logs and signals are trainer.h's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/step_state.h"
#include "data/batch/batches.h"
#include "data/set/dataset.h"
#include "net/net.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "train/checkpoint/initial_weights.h"
#include "train/evaluate/evaluation.h"
#include "train/step/program.h"
#include "train/step/step_graphs.h"

namespace duet {

class Training {
 public:
  /// Plans and takes all memory, uploads the data and starts from initial values, or the weights of
  /// spec.train.init_from, and those of spec.features. `context` must outlive this, and `dataset` too if it is streamed
  /// (data/batch/batches.h). Throws ConfigError if the batch is larger than the data, or for what
  /// take_features_weights() reports, and what take_initial_weights() throws.
  Training(const NetSpec& spec, const std::vector<ResolvedLayer>& layers, const Dataset& dataset,
           std::unique_ptr<Optimizer> optimizer, const Schedule& schedule, Context& context);

  /// Runs every kernel once without changing anything and, with `graph: true` on a GPU, captures
  /// the step, several steps and the evaluation. Called before the first step.
  void prepare();

  Training(const Training&) = delete;  // program() refers to this
  Training& operator=(const Training&) = delete;

  /// Queues training steps: gather, forward, backward, update. Reads nothing back.
  /// Where the data are streamed it waits for the batch; throws DataError if that cannot be had, and
  /// InterruptedError, with nothing queued, if an interrupt is requested meanwhile.
  void step(int64_t count = 1);
  /// Of the next `most` steps those that one launch takes; returns how many.
  int64_t step_some(int64_t most);
  /// Steps that one launch takes where that many are left.
  int64_t steps_at_once() const { return graphs_.at_once(); }
  /// For who queues the operations of program() itself: has the batch of the next step there, and
  /// step() go on from wherever they have come. Waits for what is queued.
  void stage();
  int64_t steps_per_epoch() const { return train_batches_.per_epoch(); }

  /// Reads the state back (waits for the queued steps).
  StepState state();
  /// The learning rate is that of the step.
  void set_state(const StepState& state);
  /// What the totals of a state of this training say.
  const StepTotals& totals() const { return totals_; }
  /// Starts new totals; the step number stays.
  void clear_totals();

  /// Of the validation data, with the weights as they are being trained: what times and checks take.
  Evaluation& evaluation() { return evaluation_; }
  /// One pass over the validation data, with the averaged weights if the optimizer keeps them.
  Metrics evaluate();

  /// What train.init_from was asked for gave.
  const std::optional<InitialWeights>& initial_weights() const { return initial_; }

  const Batches& batches() const { return train_batches_; }
  /// Device memory taken for all of it: network, data, optimizer, state. What CUDA and the
  /// libraries take for themselves is not known here.
  size_t memory_bytes() const;

  /// Where the loss of the next step stops being finite, in words. Runs that step without the
  /// optimizer.
  std::string explain_halt();

  /// What step() queues, also where it replays a graph.
  const Program& program() const { return program_; }
  /// True if step() replays a graph.
  bool has_graph() const { return static_cast<bool>(graphs_); }

  Net& net() { return net_; }
  Weights& weights() { return weights_; }
  const Optimizer& optimizer() const { return *optimizer_; }
  const ScheduleRule& schedule() const { return schedule_; }
  /// What the optimizer keeps beside the weights, laid out as weights().trained(): its states, and
  /// where it averages the weights ("ema") those that it trains ("weights").
  std::vector<std::pair<std::string, Tensor>> optimizer_states() const;
  /// What is evaluated and saved as the parameters: the averaged weights, or the weights.
  const Tensor& result() const {
    return optimizer_tensors_.ema ? optimizer_tensors_.ema : optimizer_tensors_.w;
  }
  /// The average begins with the weights as they are. Nothing where there is none.
  void restart_average();
  Context& context() const { return context_; }

 private:
  void write_program();
  StepGraph captured(int64_t steps);
  void wait_for_prepared(const Net::Call& call);
  const uint64_t* step_number() { return &device_state(state_)->step; }
  StepState* device_state(const Buffer& buffer) { return static_cast<StepState*>(buffer.data()); }

  Context& context_;
  const bool use_graph_;
  const int64_t graph_steps_;
  Weights weights_;
  std::optional<InitialWeights> initial_;
  Net net_;
  std::unique_ptr<Optimizer> optimizer_;
  Batches train_batches_;
  ScheduleRule schedule_;
  Evaluation evaluation_;
  StepTotals totals_;
  OptimizerTensors optimizer_tensors_;
  Tensor aside_;  // where the weights are while the averaged ones stand in their place
  std::unique_ptr<Update> update_;
  std::vector<Buffer> optimizer_memory_;  // of the states, the average and aside_
  Buffer state_;                          // StepState of the training
  uint64_t next_ = 0;                     // the step that step() queues
  Program program_;
  std::unique_ptr<SideStream> branch_;  // of the captured step
  /// On the branch, the mark behind what passes take of parameters, until one waits for it.
  std::optional<size_t> prepared_;
  StepGraphs graphs_;
};

}  // namespace duet
