// tanh: y = tanh(x), any shape and layout. dx = dy * (1 - y^2). No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& tanh_type();

}  // namespace duet
