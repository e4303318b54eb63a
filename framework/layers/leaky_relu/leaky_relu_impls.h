// The list of implementations of leaky_relu.
#pragma once

#include "layers/activation/activation.h"

namespace duet {

std::vector<ImplEntry<ActivationProblem>>& leaky_relu_impls();

}  // namespace duet
