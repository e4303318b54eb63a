// The list of implementations of sigmoid.
#pragma once

#include "layers/activation/activation.h"

namespace duet {

std::vector<ImplEntry<ActivationProblem>>& sigmoid_impls();

}  // namespace duet
