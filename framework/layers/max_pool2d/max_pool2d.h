// max_pool2d: y = the largest value of each window, as torch.nn.MaxPool2d (without dilation and
// ceil_mode). Padding counts as -infinity. dy goes to the pixel that was the largest: of equal ones
// to the first in row-major order; where there are NaNs, y is NaN and dy goes to the last of them.
// Sizes and keys: pool2d.h.
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& max_pool2d_type();

}  // namespace duet
