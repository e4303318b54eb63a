// Results of compare as a Markdown page, for docs/results/ and for pull requests.
#pragma once

#include <string>

#include "compare/results/results.h"

namespace duet {

/// Verdicts, what is wrong, the times of the layers, totals, training, throughput and the machine.
/// Missing parts are left out. Names are text: nothing in them is read as Markdown or HTML.
std::string results_markdown(const Results& results);

/// For a page that is about something else: the layers' table of each batch, and in a line where
/// and how it was measured.
std::string results_summary(const Results& results);

}  // namespace duet
