// The list of implementations of avg_pool2d; their interface is Pool2dImpl.
#pragma once

#include "layers/pool2d/pool2d.h"

namespace duet {

ImplEntry<Pool2dProblem> avg_pool2d_cpu_reference();

std::vector<ImplEntry<Pool2dProblem>>& avg_pool2d_impls();

}  // namespace duet
