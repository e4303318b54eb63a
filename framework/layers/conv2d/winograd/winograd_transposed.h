// dx of a 3x3 convolution as y of another.
#pragma once

#include "layers/conv2d/conv2d.h"

namespace duet {

/// dx = dy * w, as the forward pass of this.
inline Conv2dProblem winograd_transposed(const Conv2dProblem& problem) {
  Conv2dProblem t = problem;
  t.c = problem.k, t.h = problem.p, t.w = problem.q;
  t.k = problem.c, t.p = problem.h, t.q = problem.w;
  t.pad_h = 2 - problem.pad_h, t.pad_w = 2 - problem.pad_w;  // may be negative
  return t;
}

}  // namespace duet
