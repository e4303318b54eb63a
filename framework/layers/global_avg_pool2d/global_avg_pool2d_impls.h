// The list of implementations of global_avg_pool2d; their interface is Pool2dImpl. The CPU and
// cuDNN take it as an avg_pool2d.
#pragma once

#include "layers/pool2d/pool2d.h"

namespace duet {

std::vector<ImplEntry<Pool2dProblem>>& global_avg_pool2d_impls();

}  // namespace duet
