// bench --watch: files of a user's kernels, compiled, checked and timed at every save.
#pragma once

#include <iosfwd>

#include "lab/bench.h"

namespace duet {

/// Examines the loaded kernels of options.problems.layer beside cuDNN, or what options.impls names,
/// now and whenever a file of them changes, until the user asks to stop. What they do to a process, a
/// child bears. Adds a line for each row to NAME.history.jsonl beside the file, from which the times of
/// earlier saves come. Returns kExitDone. Throws ConfigError where nothing is to be watched.
int watch_kernels(const BenchOptions& options, std::ostream& out);

}  // namespace duet
