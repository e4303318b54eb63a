// Where the time of a training step goes, measured in the running network.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compare/step_times.h"

namespace duet {

struct InNetwork {
  /// Of one operation of one arm.
  struct Part {
    std::string layer, pass, implementation;
    double in_network_us = 0;
    /// Seconds, a value a round: of those that no layer is, the batch, the update, the
    /// advance. Empty for layers.
    std::vector<double> alone;
  };
  std::vector<std::vector<Part>> parts;  // by arm, in the order they run
  std::vector<size_t> memory_bytes;

  /// Fills "in_network_us" of the rows of layers and appends rows for the other operations, and
  /// remembers the sum of the rows' times for totals().
  void add_to(nlohmann::json* rows);
  nlohmann::json totals(const StepTimes& steps) const;

 private:
  std::vector<double> sums_;  // of "us", by arm; negative if a row has none
};

/// Arm by arm, the parts of a step. On a GPU a part is what it adds to a step that ends with it:
/// the time of the step's first k operations, replayed from a graph, less that of its first k - 1.
/// On the CPU the clock is read between operations. Trains the arms on the way.
InNetwork measure_in_network(RunningArms& arms, const TimingPlan& plan);

}  // namespace duet
