// Whether each layer is right inside the running network, where layers share a workspace, a process
// and the memory around them.
#pragma once

#include <string>
#include <vector>

#include "compare/arms.h"
#include "measure/examine/examine.h"

namespace duet {

/// A fault of one pass of one layer of a network; of whole steps where `layer` is empty.
struct NetworkFault {
  std::string layer, pass;
  Fault fault;
};

/// Runs one training step of the arm's network call by call, without its update, and the evaluation
/// of one batch, whose outputs are those of inference as it is timed (step_outcomes.h), and compares
/// what each layer wrote (y, dx, dw) with what cpu_reference in double makes of what the layer read
/// in the network. Between calls, it also compares every tensor that the call may not write with its bytes before (in networks whose
/// tensors are small enough to do so quickly).
///
/// Where the reference would take long (more than 1e8 operations a layer), it computes 16 rows of
/// the batch, the first and the last among them. A gradient of parameters is then that of the same
/// rows: the network's backward_filter runs once more with dy zero in all other rows. This takes
/// rows of a batch to be independent, as they are in all layers that multiply.
///
/// Sets the parameters back to their initial values: near a minimum, the terms of a gradient
/// cancel, and no limit relative to the sum holds. The step number stays.
std::vector<NetworkFault> check_network(RunningArm& arm);

}  // namespace duet
