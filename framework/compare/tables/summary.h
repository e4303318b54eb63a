// What results say in a few lines, and what --fail-on makes of them.
#pragma once

#include <string>
#include <vector>

#include "compare/results/results.h"

namespace duet {

/// Sections that are missing are left out. The results' own summary is not looked at.
ResultsSummary summarise(const Results& results);

/// What --fail-on names.
struct FailOn {
  bool mismatch = false;
  bool slower = false;
  double ratio = 1.0;  // of slower
};
/// Reads "mismatch", "slower" and "slower:0.95". Throws ConfigError with every mistake.
FailOn read_fail_on(const std::vector<std::string>& words);
/// Why a run counts as failed, a line each. `slower` strikes where the first arm's speed, in a
/// whole step of training or inference, is below `ratio` times another arm's with all of its
/// interval; for a ratio of at most 1 the verdict must also be neither "same" nor "unclear". What
/// has nothing to compare fails, too. The results' own summary is not looked at.
std::vector<std::string> failures(const Results& results, const FailOn& fail_on);

}  // namespace duet
