// How speed goes with the size of the batch: whole steps of training and inference.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "compare/arms.h"

namespace duet {

/// The "throughput" of the results: a row for each batch size, all arms in memory at once and
/// interleaved. Training is a whole step; inference is a forward pass with dropout off. Both gather
/// their batch. An arm that cannot run at a size (out of memory, a batch larger than the training
/// data, an implementation that refuses it) has {"arm", "error"}, with the reason, in that row.
nlohmann::json compare_throughput(const std::vector<Arm>& arms, const Dataset& dataset,
                                  const std::vector<int64_t>& batches, const TimingPlan& timing);

}  // namespace duet
