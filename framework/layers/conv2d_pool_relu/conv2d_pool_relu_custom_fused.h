// custom_fused as a part: what the more special implementations leave to it, as all hand-written
// ones keep the same state (conv2d/packed_argmax.cuh).
#pragma once

#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {

/// What no kernel here pools by.
std::optional<std::string> window_unsupported(const Conv2dPoolReluProblem& problem);
/// That, and what custom_fused cannot do.
std::optional<std::string> custom_fused_unsupported(const Conv2dPoolReluProblem& problem,
                                                    Pass pass);
std::unique_ptr<Conv2dPoolReluImpl> make_custom_fused(const Conv2dPoolReluProblem& problem);

}  // namespace duet
