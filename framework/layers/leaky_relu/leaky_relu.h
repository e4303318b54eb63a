// leaky_relu: y = x for x > 0, slope * x otherwise, any shape and layout. The gradient at 0 is
// `slope`. Keys: slope 0.01 (PyTorch's negative_slope).
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& leaky_relu_type();

}  // namespace duet
