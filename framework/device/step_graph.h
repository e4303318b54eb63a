// A CUDA graph of whatever a function queues on a Context's stream.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "device/context.h"

namespace duet {

class StepGraph {
 public:
  StepGraph();
  /// Captures what `record` queues on context.stream(); nothing runs. `record` may not allocate,
  /// synchronise or use other streams. REQUIRES: a GPU context that outlives this; everything
  /// `record` queues has run once before (libraries load their kernels on first use).
  StepGraph(Context& context, const std::function<void()>& record);
  /// The same of work in which nothing is read before wait_for_primary() (device/launch.h) that other work of it writes, but
  /// by its primary: secondaries of few blocks start as soon as all blocks of their primaries have, not when these end.
  static StepGraph with_early_secondaries(Context& context, const std::function<void()>& record);
  /// A graph of graphs, one after the other; keeps copies of them.
  StepGraph(Context& context, const std::vector<const StepGraph*>& parts);
  ~StepGraph();
  StepGraph(StepGraph&&) noexcept;
  StepGraph& operator=(StepGraph&&) noexcept;

  explicit operator bool() const { return impl_ != nullptr; }
  /// Queues one replay on the context's stream.
  void launch();

 private:
  struct Impl;
  explicit StepGraph(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace duet
