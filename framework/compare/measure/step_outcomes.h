// What timed steps leave behind, to be compared with what the same steps leave behind untimed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compare/arms.h"
#include "measure/examine/examine.h"
#include "measure/time/ceilings.h"

namespace duet {

/// What a number of training steps and of inferences after them leave.
struct StepOutcome {
  int64_t steps = 0, inferences = 0;
  StepState training;
  size_t parameters = 0, outputs = 0;  // hashes of their bits
};

StepOutcome step_outcome(RunningArm& arm, int64_t steps, int64_t inferences);

/// Runs as many steps (call by call, without a graph) as the instances of `timed`, and an evaluation of the batch that
/// inference took, and compares the outcomes. REQUIRES: `fresh` has done nothing yet; the evaluation of each instance had
/// been restarted before its inferences.
std::optional<Fault> check_outcomes(RunningArm& fresh, std::vector<StepOutcome> timed);

/// least_seconds() of all layers' passes together, of inference without the loss; 0 if the ceilings are not known.
double least_step_seconds(const Ceilings& ceilings, RunningArm& arm, bool training);

}  // namespace duet
