// avg_pool2d: y = the sum of each window / R*S, as torch.nn.AvgPool2d (without ceil_mode and
// divisor_override). Padding counts as 0 and is counted; with count_include_pad: false, y = the sum
// / the number of pixels of the image in the window. Sizes and the other keys: pool2d.h.
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& avg_pool2d_type();

}  // namespace duet
