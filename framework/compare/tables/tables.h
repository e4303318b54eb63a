// Results of compare on a console.
#pragma once

#include <string>

#include "compare/results/results.h"

namespace duet {

/// Why the run stopped early, if it did, the first mismatch if there is one, the headlines, then the
/// tables of each section that was measured.
std::string results_text(const Results& results);

}  // namespace duet
