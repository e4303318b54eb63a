// What timed steps leave behind, to be compared with what the same steps leave behind untimed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compare/arms.h"
#include "measure/ceilings.h"
#include "measure/examine.h"

namespace duet {

/// The state after a number of training steps and of inferences after them.
struct StepOutcome {
  int64_t steps = 0, evaluations = 0;
  StepState training, evaluation;
  size_t parameters = 0;  // a hash of their bits
};

StepOutcome step_outcome(RunningArm& arm, int64_t steps, int64_t evaluations);

/// Runs as many steps (call by call, without a graph) and inferences as the instances of `timed`
/// and compares the outcomes. REQUIRES: `fresh` has done nothing yet; the totals of the inference
/// started at zero in each instance.
std::optional<Fault> check_outcomes(RunningArm& fresh, std::vector<StepOutcome> timed);

/// least_seconds() of all layers' passes together; 0 if the ceilings are not known.
double least_step_seconds(const Ceilings& ceilings, RunningArm& arm, bool training);

}  // namespace duet
