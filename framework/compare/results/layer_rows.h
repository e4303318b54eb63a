// A row of results: one layer and pass, and what was measured of every arm that runs it. The same
// in compare and in bench.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "compare/results/results.h"
#include "measure/time/ceilings.h"
#include "measure/time/measure_pass.h"

namespace duet {

struct RowArm {
  const Layer* layer = nullptr;  // null: this arm has no such layer
  std::string id;
  bool shared = false;
  const PassMeasurement* measurement = nullptr;

  /// nullptr: it was not timed.
  const Times* times() const {
    return measurement && measurement->warm ? &*measurement->warm : nullptr;
  }
};

struct RowFacts {
  std::string name;  // "conv1", or empty
  const Layer* layer = nullptr;
  Pass pass = Pass::kForward;
  std::optional<double> floor_seconds;
  std::string repeat;  // the command that measures this again
};

/// Without ratios.
MeasuredRow measured_row(const RowFacts& facts, const std::vector<RowArm>& arms);

/// Adds how fast arm `a` is beside arm `b`, if both were timed.
void add_ratio(const std::vector<RowArm>& arms, size_t a, size_t b, ArmRatios* ratios);

/// "bench conv2d --shape n=64,... --pass forward": measures every implementation of the device.
std::string repeat_command(const Layer& layer, Pass pass);

}  // namespace duet
