// What bench runs of its problems: which passes, and which implementations of each.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/bench_problems.h"
#include "measure/time/measure_pass.h"

namespace duet {

struct PassSelection {
  Pass pass;
  std::vector<Candidate> candidates;  // the baseline first: its ratios decide when to stop
  struct Unsupported {
    std::string id, reason;
    bool broken = false;  // its file cannot be compiled
  };
  std::vector<Unsupported> unsupported;
};

struct ProblemSelection {
  const BenchProblem* problem;
  std::vector<PassSelection> passes;  // in which at least something was named
};

/// The device of `impls` (families and ids), else `device`, else the GPU if there is one. Throws
/// ConfigError for an unknown name and for names of two devices, UnsupportedError without a GPU.
Device choose_device(const std::vector<std::string>& impls, std::optional<Device> device);

/// Whether `passes`, those of --pass, name it: "backward" names all but forward, and none all.
bool is_wanted(Pass pass, const std::vector<std::string>& passes);

/// The passes and implementations of `device` that are named; all where none is. With `choice` of a
/// family only what a network would run (choose_of). Throws ConfigError for an unknown pass, UnsupportedError with the
/// reasons if nothing at all can run; ConfigError if a file of kernels does not compile, too.
/// REQUIRES: `problems` outlive what is returned.
std::vector<ProblemSelection> select(const std::vector<BenchProblem>& problems,
                                     const std::vector<std::string>& passes,
                                     const std::vector<std::string>& impls, Device device,
                                     bool choice = false);

/// What does not fit is refused before anything is measured, as Linux would end the process later.
/// Throws OutOfMemoryError. Workspaces are not among it: they are known when implementations are
/// made (workspace_room).
void check_memory(const std::vector<ProblemSelection>& selections, Device device);
/// Bytes that are left for workspaces while a pass is measured (PassPlan).
double workspace_room(const Layer& layer, const PassSelection& selection, Device device);

}  // namespace duet
