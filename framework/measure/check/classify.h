// What is the matter with an output that is wrong.
#pragma once

#include "measure/examine/examine.h"

namespace duet {

/// Names the fault of the worst tensor. `text` is a predicate: "returns zeros: y[0] ...".
/// REQUIRES: not all tensors agree; `outputs` and `expected` are what they were held to, the
/// outputs having been poisoned before the run.
Fault classify(const std::vector<TensorResult>& tensors, const std::vector<NamedValues>& outputs,
               const std::vector<NamedValues>& expected);

}  // namespace duet
