// global_avg_pool2d: y = the mean of each channel of each image, N x C x 1 x 1, as
// torch.nn.AdaptiveAvgPool2d(1); dx = dy / (H*W). No keys. An avg_pool2d whose one window is the
// image: pool2d.h.
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& global_avg_pool2d_type();

}  // namespace duet
