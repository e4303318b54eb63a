// The list of implementations of tanh.
#pragma once

#include "layers/activation/activation.h"

namespace duet {

std::vector<ImplEntry<ActivationProblem>>& tanh_impls();

}  // namespace duet
