// What layers share that compare a tensor with targets of its shape.
#pragma once

#include <string>
#include <vector>

#include "core/tensor.h"

namespace duet {

/// Throws ShapeError unless `inputs` are x with N first, targets as x, and rows as rows_desc(N).
void check_pair(const std::vector<TensorDesc>& inputs);

}  // namespace duet
