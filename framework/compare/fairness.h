// What else the arms of a comparison do differently than their times tell.
#pragma once

#include <string>
#include <vector>

#include "compare/results/results.h"

namespace duet {

/// Sentences, from the networks of the arms: which blocks one arm computes fused and another by
/// several calls or layer by layer, which interfaces of the libraries an arm calls, and what it
/// multiplies in parts (layers/split_products.h). Empty where
/// the arms do not differ so, or results do not tell.
std::vector<std::string> fairness_lines(const Results& results);

}  // namespace duet
