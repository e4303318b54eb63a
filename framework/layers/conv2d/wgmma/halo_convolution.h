// What entries without wgmma need to know of HaloConvolution.
#pragma once

#include "layers/conv2d/conv2d.h"

namespace duet {

/// Whether custom_mma is faster than HaloConvolution, of the two that can do it where WgmmaConvolution refuses few channels.
bool mma_preferred_to_halo(const Conv2dProblem& d, Pass pass);

}  // namespace duet
