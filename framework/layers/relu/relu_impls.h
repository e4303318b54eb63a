// The list of implementations of relu.
#pragma once

#include "layers/activation/activation.h"

namespace duet {

std::vector<ImplEntry<ActivationProblem>>& relu_impls();

}  // namespace duet
