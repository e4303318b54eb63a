// sigmoid: y = 1 / (1 + exp(-x)), any shape and layout. dx = dy * y * (1 - y). No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& sigmoid_type();

}  // namespace duet
