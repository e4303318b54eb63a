// Where the time of a training step goes: every pass of every layer, timed on the network's own
// buffers, beside the whole step.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "train/step/training.h"

namespace duet {

struct ProfileRow {
  std::string layer, pass, implementation, problem;
  size_t workspace_bytes = 0;
  double microseconds = 0.0;
};

struct Profile {
  std::vector<ProfileRow> rows;
  double sum_microseconds = 0.0;   // of the rows
  double step_microseconds = 0.0;  // the whole step, as training runs it
};

/// Each row: many repetitions of the one pass (on a GPU replayed from a graph, so that launches
/// cost what they cost in training), the median of five blocks of at least 10 ms. The inputs are
/// warm in the caches, so the sum can be below the step's time. Trains some hundred steps on the
/// way; the parameters change. REQUIRES: training.prepare() was called.
Profile profile_step(Training& training);

std::string profile_table(const Profile& profile);
nlohmann::json profile_json(const Profile& profile);

}  // namespace duet
