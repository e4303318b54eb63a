// bench --tune: the values of DUET_TUNE in files of a user's kernels, each checked and timed.
#pragma once

#include <iosfwd>

#include "lab/bench.h"

namespace duet {

/// Of the loaded kernels of options.problems.layer, every combination of the values that DUET_TUNE
/// names is compiled, examined and timed on every problem, beside options.impls if there are any. Those
/// that are fastest over the passes of a problem, and right in all, are kept for that problem, source
/// and GPU, and run it from then on. Prints the tables and what was kept. Returns kExitDone. Throws
/// ConfigError where there is nothing to tune.
int tune_kernels(const BenchOptions& options, std::ostream& out);

}  // namespace duet
