// softmax_dropout: softmax over the last axis and dropout as one layer, as in attention.
//
//   y = softmax(x) * mask / (1 - p) in training, y = softmax(x) in evaluation
//   dx = s * (d - sum over the axis of d * s),  s = softmax(x), d = dy * mask / (1 - p)
//
// Shapes and what is not finite: softmax's. The mask is dropout's, of this layer's stream. Keys: p 0.5
// (0 <= p < 1).
#pragma once

#include "layers/dropout/dropout.h"
#include "layers/softmax/softmax.h"

namespace duet {

struct SoftmaxDropoutProblem {
  SoftmaxProblem softmax;
  DropoutProblem dropout;  // of the same x
  DType dtype = DType::kFloat32;

  std::string to_string() const { return dropout.to_string(); }
};

const LayerType& softmax_dropout_type();

/// Both passes read run.training on the host and the step number in device memory.
using SoftmaxDropoutImpl = MapImpl<SoftmaxDropoutProblem>;

std::vector<ImplEntry<SoftmaxDropoutProblem>>& softmax_dropout_impls();

}  // namespace duet
