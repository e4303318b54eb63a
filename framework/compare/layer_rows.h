// A row of results: one layer and pass, and what was measured of every arm that runs it. The same
// in compare and in bench; docs/benchmarking.md describes the keys.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "measure/ceilings.h"
#include "measure/measure_pass.h"

namespace duet {

struct RowArm {
  const Layer* layer = nullptr;  // null: this arm has no such layer
  std::string id;
  bool shared = false;
  const PassMeasurement* measurement = nullptr;
};

struct RowFacts {
  std::string name;  // "conv1", or empty
  const Layer* layer = nullptr;
  Pass pass = Pass::kForward;
  std::optional<double> floor_seconds;
  std::string repeat;  // the command that measures this again
};

/// Without ratios.
nlohmann::json layer_row(const RowFacts& facts, const std::vector<RowArm>& arms);

/// How fast arm `a` is beside arm `b` (results.h), or null unless both were timed.
nlohmann::json ratio_json(const std::vector<RowArm>& arms, size_t a, size_t b);

/// "bench conv2d --shape n=64,... --pass forward": measures every implementation of the device.
std::string repeat_command(const Layer& layer, Pass pass);

}  // namespace duet
