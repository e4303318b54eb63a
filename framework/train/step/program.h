// What a training step or the evaluation of a batch does, as a list.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/batch/batches.h"
#include "net/net.h"

namespace duet {

/// A part of a program, which can also be queued by itself. On the CPU queueing it computes it.
struct Operation {
  enum class Kind { kGather, kLayer, kUpdate, kAdvance };

  Kind kind;
  std::string layer;           // a layer's name, or "batch", "update", "advance"
  std::string pass;            // "forward", "gather", or empty
  std::string implementation;  // an id, an optimizer, or empty
  std::function<void()> queue;
  const Net::Call* call = nullptr;  // of kLayer: one of the network's calls()

  /// "conv1 forward", "update"
  std::string name() const { return layer + (pass.empty() ? "" : " " + pass); }
  /// Of a layer, else empty.
  std::string problem() const { return call ? call->node->layer->problem_text() : ""; }
  size_t workspace_bytes() const;
};

/// The operations of one step or one batch, in the order they run.
using Program = std::vector<Operation>;

/// Queues all of it.
void queue(const Program& program);

/// What a program is made of. `queue` is wrapped in a range of the operation's name.
Operation gather_operation(std::function<void()> queue);
Operation layer_operation(const Net::Call& call, std::function<void()> queue);
Operation update_operation(const std::string& optimizer, std::function<void()> queue);
Operation advance_operation(std::function<void()> queue);

}  // namespace duet
