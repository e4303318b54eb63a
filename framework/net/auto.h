// `backend: auto`: every implementation on the network's device that can do a pass is checked
// against the reference and timed on this machine, and the fastest that is right is taken. What was
// found is kept in a file, so that the next run starts at once.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "device/context.h"
#include "device/tuning_cache.h"
#include "net/plan.h"
#include "net/resolve.h"

namespace duet {

/// Where choices are kept: ~/.cache/duet/auto.json; empty if there is no home.
std::filesystem::path auto_cache_path();

/// Fills in the choices of `layers` that `cache` knows for this machine, libraries and program and
/// under this limit of the workspace, and returns how many passes are still kAuto. Measures nothing
/// and takes no GPU memory. `mode` is what the network will run in.
size_t recall_choices(std::vector<ResolvedLayer>& layers, Device device, size_t workspace_limit,
                      const TuningCache& cache, NetMode mode = NetMode::kTraining);

/// What is said on the way, a sentence each.
struct AutoLog {
  std::function<void(const std::string&)> info = [](const std::string&) {};
  std::function<void(const std::string&)> warn = [](const std::string&) {};
};

/// Fills in all choices, measuring those that `cache` does not know, and adds them to it. Passes
/// that the network will not run (the gradient of the images; in kInference all backward passes)
/// follow the layer's other passes. A layer that runs all passes by one implementation is
/// measured over all that will run. Throws UnsupportedError if every candidate of a pass fails its
/// check, with the reason of each.
void choose_automatically(std::vector<ResolvedLayer>& layers, Context& context, TuningCache& cache,
                          const AutoLog& log, NetMode mode = NetMode::kTraining);

}  // namespace duet
