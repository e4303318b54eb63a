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
  std::unique_ptr<Impl> impl_;
};

}  // namespace duet
