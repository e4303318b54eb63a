// How one family does beside another on whole suites (suites.h): one line of figures for each suite,
// layer type, pass and math.
#pragma once

#include <string>
#include <vector>

#include "compare/results.h"

namespace duet {

/// Several results of bench; of two that measured the same problem and pass
/// the later one counts. Throws DataError: a file is damaged or no results of bench, or of another
/// device than the first.
std::vector<BenchResults> read_bench_results(const std::vector<std::string>& files);

/// The geometric mean of the speedups, in how many rows the one is faster and slower by more than a
/// fiftieth, and the worst row. What is compared: of a family the fastest that was measured, or
/// implementations where all are of one family; beside the baseline's. "" if there is nothing to
/// compare.
std::string suite_summary_text(const std::vector<BenchResults>& all);
/// The same as a page, with where, when and how it was measured.
std::string suite_summary_markdown(const std::vector<BenchResults>& all);

}  // namespace duet
