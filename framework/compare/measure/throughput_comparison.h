// How speed goes with the size of the batch: whole steps of training and inference.
#pragma once

#include <cstdint>
#include <vector>

#include "compare/measure/step_times.h"
#include "compare/results/results.h"

namespace duet {

/// An arm that cannot run at this size has an error, with the reason, and no times; so has one that
/// is wrong at that size, with what is wrong in words. `faults`, of every arm that ran, lists that
/// again.
ThroughputRow compare_throughput(StepTimer& timer, int64_t batch);

}  // namespace duet
