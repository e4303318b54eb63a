// What `trainer --profile` does, and the files it leaves.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "train/setup.h"
#include "train/step/training.h"

namespace duet {

/// Profiles and traces the step, prints the table, and writes config.yaml, profile.json and
/// trace.json to `folder` (a new one in runs/ if it is empty); returns what profile.json holds and
/// "out", the folder. Throws ConfigError as RunFolder::create() does, before any time is spent.
/// REQUIRES: training.prepare() was called.
nlohmann::json run_profiler(Training& training, const Setup& setup,
                            const std::filesystem::path& folder);

}  // namespace duet
