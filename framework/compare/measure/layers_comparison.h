// The section "layers": every layer and pass of the networks on their real shapes and activations,
// and where the time of a training step goes.
#pragma once

#include <functional>

#include "compare/measure/step_times.h"
#include "compare/results/results.h"
#include "measure/time/ceilings.h"
#include "measure/time/measure_pass.h"

namespace duet {

/// What ended the process that measured it.
struct EndedWork {
  std::string work;      // as LayersPlan::progress heard it
  std::string id, text;  // of the implementation, if that is known; why
};

struct LayersPlan {
  PassPlan pass;
  TimingPlan network;        // the parts of a step in the network
  int64_t steps = 20;        // of training before the activations are taken
  bool (*stop)() = nullptr;  // make_check_data's
  /// Not run again: the implementation, with the text as its fault, in all rows of the layer; all
  /// of the row, or of the network, where none is known.
  std::vector<EndedWork> ended = {};
  /// Hears the share that is done, and what begins.
  std::function<void(double, const std::string&)> progress = [](double, const std::string&) {};
  /// Hears the share within a row, too; called before each of its examinations and rounds.
  std::function<void(double)> row_part = [](double) {};
};

/// Fills `section`, of the batch of `arms`; rows that stand in it are left as they are. Each layer
/// and pass is measured on its own, the arms side by side (measure_pass), on what the first arm that has the
/// layer feeds it; layers of the arms are matched by name, type and sizes. in_network_us is
/// measure_in_network()'s. What `steps` found wrong in a layer is a fault of its row;
/// step_faults has all of it, a list an arm. The whole step is that of `steps`, where every arm
/// has times of the same batch. Trains the arms on the way. Rows that are finished stand in
/// `section` even if this throws; a whole one has totals. REQUIRES: `arms` is not empty.
void compare_layers(RunningArms& arms, const StepTimes& steps, const Ceilings& ceilings,
                    const LayersPlan& plan, LayersSection* section);

}  // namespace duet
