// The list of implementations of batch_norm2d_relu and batch_norm1d_relu. The interface is
// batch_norm's: hand-written kernels are the same, with relu where they write y and read dy.
#pragma once

#include "layers/batch_norm/batch_norm_impls.h"

namespace duet {

/// REQUIRES: of their problems, relu is set.
std::vector<ImplEntry<BatchNormProblem>>& batch_norm_relu_impls();

}  // namespace duet
