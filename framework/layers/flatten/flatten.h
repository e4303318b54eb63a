// flatten: N x C x H x W becomes N x (C*H*W), as torch.nn.Flatten: the same memory under another
// shape, so there is nothing to run and nothing to choose. N x F passes through. The input must be
// stored NCHW, because feature f is c*H*W + h*W + w. No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

const LayerType& flatten_type();

}  // namespace duet
