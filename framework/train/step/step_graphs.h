// A step that is repeated, as CUDA graphs: one of a single step, and one of several, which go by one launch.
#pragma once

#include <cstdint>
#include <functional>

#include "device/step_graph.h"

namespace duet {

class StepGraphs {
 public:
  StepGraphs() = default;
  /// `captured(n)` is a graph of n steps, one behind the other; `several` of them are best.
  StepGraphs(int64_t several, const std::function<StepGraph(int64_t)>& captured)
      : several_(several), one_(captured(1)) {
    if (several > 1) more_ = captured(several);
  }

  /// False before anything is captured.
  explicit operator bool() const { return static_cast<bool>(one_); }
  /// So many steps, and their multiples, are launched best.
  int64_t at_once() const { return more_ ? several_ : 1; }
  /// Of `wanted` steps as many as one launch() takes.
  int64_t fitting(int64_t wanted) const { return wanted < at_once() ? 1 : at_once(); }
  /// Queues 1 or at_once() steps.
  void launch(int64_t steps) { (steps > 1 ? more_ : one_).launch(); }

 private:
  int64_t several_ = 1;
  StepGraph one_, more_;
};

}  // namespace duet
