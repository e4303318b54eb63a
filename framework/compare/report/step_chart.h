// A comparison as one picture for pages that show no HTML: the time of a training step as bars.
#pragma once

#include <string>

#include "compare/results/results.h"

namespace duet {

/// An SVG file, of the first batch whose layers were measured: a bar for the step of each arm, and
/// one for each layer, its passes added up, all on one scale. Of two arms it says how many times as
/// fast the first is. An arm that is wrong in a layer has no bar there. It is light or dark as the
/// reader's screen, and its letters can be read on a phone. Throws DataError if no batch's layers
/// were measured to the end.
std::string step_chart_svg(const Results& results);

}  // namespace duet
