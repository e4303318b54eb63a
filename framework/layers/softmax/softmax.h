// softmax: y = exp(x) / sum of exp(x) over the last axis, as torch.nn.Softmax(dim=-1); any rank and
// layout (the last axis of an image is w, whichever is innermost in memory).
//   dx = y * (dy - sum over the axis of dy * y)
// An infinity above, a NaN or nothing but -infinities make all y of their row NaN. No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

/// In memory: outer x columns x inner values, a row along the middle.
struct SoftmaxProblem {
  TensorDesc x;  // y, dx, dy have the same
  DType dtype = DType::kFloat32;

  int64_t columns() const { return x.shape[x.shape.rank() - 1]; }
  int64_t rows() const { return x.elements() / columns(); }
  int64_t inner() const {
    return x.shape.rank() == 4 && x.layout == Layout::kNHWC ? x.shape[1] : 1;
  }
  int64_t outer() const { return rows() / inner(); }
  std::string to_string() const { return "x=" + x.to_string(); }
};

/// The shape rule alone, for layers that contain a softmax. Throws ShapeError.
SoftmaxProblem softmax_problem(const TensorDesc& x);

const LayerType& softmax_type();

/// In bfloat16 backward takes y anew from x: as it is stored, y has too few digits near 1.
using SoftmaxImpl = MapImpl<SoftmaxProblem>;

std::vector<ImplEntry<SoftmaxProblem>>& softmax_impls();

}  // namespace duet
