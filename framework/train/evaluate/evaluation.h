// A network over a split of the data: its losses and, of one that reads labels, how each class is
// predicted.
#pragma once

#include <cstdint>
#include <vector>

#include "core/step_state.h"
#include "data/batch/batches.h"
#include "data/set/dataset.h"
#include "net/net.h"
#include "train/evaluate/class_counts.h"
#include "train/step/program.h"
#include "train/step/step_graphs.h"
#include "train/step/step_totals.h"

namespace duet {

class Evaluation {
 public:
  /// Uploads the split, or streams it as `info` says (data/batch/batches.h). `net` has its losses, takes
  /// images of `info`'s sizes and, with its context, outlives this; a network in training evaluates
  /// as one for inference.
  Evaluation(Net& net, const DatasetInfo& info, const Split& split);
  Evaluation(const Evaluation&) = delete;  // the program refers to this
  Evaluation& operator=(const Evaluation&) = delete;

  /// Runs a batch once, and captures it as a graph, and `steps` of them as another. REQUIRES: a GPU.
  void capture(int64_t steps);

  /// One pass over the split.
  Metrics run();

  /// Queues batches, gather and counts included: what run() repeats. They are the next of the split;
  /// past its end the rows are blank.
  void step(int64_t count = 1);
  /// Of the next `most` batches those that one launch takes; returns how many.
  int64_t step_some(int64_t most);
  /// Queues inference alone: gather and the layers that lead to what the network makes, of the batch that step() would take
  /// next, once or as often as one launch takes of `most`; returns how often. It captures what it
  /// replays when it is first called.
  int64_t infer_some(int64_t most);
  /// The next step() takes the first batch, and totals start anew.
  void restart();
  /// Totals so far (waits for the queued steps).
  StepState state();
  /// Of what it has run so far.
  Metrics metrics() { return totals_.metrics(state()); }
  /// What the network makes.
  const Tensor& outputs() const { return net_.output(); }

  /// What step() queues, also where it replays a graph.
  const Program& program() const { return program_; }

  const Batches& batches() const { return batches_; }
  /// Device memory for data and totals.
  size_t memory_bytes() const {
    return batches_.memory_bytes() + state_.bytes() + counts_.bytes() + totals_.memory_bytes();
  }

 private:
  StepState* device_state() { return static_cast<StepState*>(state_.data()); }
  /// Of operations one behind the other, with the graphs of as many steps as capture() was told.
  StepGraphs captured(const Program& operations);

  Net& net_;
  Context& context_;
  Batches batches_;
  uint64_t next_ = 0;  // the batch that step() queues
  Buffer state_;       // StepState
  Buffer counts_;      // ClassCounts
  StepTotals totals_;
  Program program_, inference_;
  int64_t steps_ = 1;  // of a graph
  StepGraphs graphs_, inference_graphs_;
};

}  // namespace duet
