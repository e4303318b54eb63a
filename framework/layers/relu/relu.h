// relu: y = max(x, 0), any shape and layout. The gradient at 0 is 0. No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& relu_type();

}  // namespace duet
