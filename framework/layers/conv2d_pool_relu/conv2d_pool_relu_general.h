// custom_fused and custom_mma as parts: what the more special implementations leave to them, as all
// hand-written ones keep the same state (conv2d/packed_argmax.cuh).
#pragma once

#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

namespace duet {

/// What no kernel here pools by.
std::optional<std::string> window_unsupported(const Conv2dPoolReluProblem& problem);
/// That, and what custom_fused cannot do.
std::optional<std::string> custom_fused_unsupported(const Conv2dPoolReluProblem& problem,
                                                    Pass pass);
std::unique_ptr<Conv2dPoolReluImpl> make_custom_fused(const Conv2dPoolReluProblem& problem);
/// In bf16 it can do what custom_fused can do in fp32. REQUIRES: the problem is stored in bfloat16.
std::unique_ptr<Conv2dPoolReluImpl> make_custom_mma(const Conv2dPoolReluProblem& problem,
                                                    const Context& context);

}  // namespace duet
