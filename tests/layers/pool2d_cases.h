// The shapes on which both poolings are tried.
#pragma once

#include <vector>

#include "support/layer_case.h"

namespace duet {

/// Each in both layouts.
std::vector<LayerCase> pool2d_cases();

}  // namespace duet
