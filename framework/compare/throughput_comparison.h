// How speed goes with the size of the batch: whole steps of training and inference.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compare/step_times.h"

namespace duet {

/// The "throughput" of the results: a row for each batch size. An arm that cannot run at a size has
/// {"arm", "error"}, with the reason, in that row; so has one that is wrong at that size, with what
/// is wrong in words. "faults", of every arm that ran, lists that again.
nlohmann::json compare_throughput(StepTimer& timer, const std::vector<int64_t>& batches);

}  // namespace duet
