// The list of implementations of sigmoid.
#pragma once

#include "layers/activation/activation.h"

namespace duet {

const std::vector<ImplEntry<ActivationProblem>>& sigmoid_impls();

}  // namespace duet
