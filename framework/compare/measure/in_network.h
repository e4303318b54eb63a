// Where the time of a training step goes, measured in the running network.
#pragma once

#include <vector>

#include "compare/measure/step_times.h"
#include "compare/results/results.h"

namespace duet {

struct InNetwork {
  /// Of one operation of one arm.
  struct Part {
    std::string layer, pass, implementation;
    double in_network_us = 0;
    /// Seconds, a value a round: of those that no layer is, the batch and the
    /// update. Empty for layers.
    std::vector<double> alone;
  };
  std::vector<std::vector<Part>> parts;  // by arm, in the order they run
  std::vector<size_t> memory_bytes;

  /// Fills in_network_us of the rows of layers and appends rows for the other operations.
  void add_to(std::vector<ComparedRow>* rows) const;
  /// With the sums of the times of all `rows`; there is none if a row has no time.
  std::vector<ArmTotal> totals(const std::vector<ComparedRow>& rows, const StepTimes& steps) const;
};

/// Arm by arm, the parts of a step. On a GPU a part is what it adds to a step that ends with it:
/// the time of the step's first k operations, replayed from a graph, less that of its first k - 1.
/// On the CPU the clock is read between operations. Trains the arms on the way.
InNetwork measure_in_network(RunningArms& arms, const TimingPlan& plan);

}  // namespace duet
