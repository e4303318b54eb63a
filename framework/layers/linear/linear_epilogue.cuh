// What the products on tensor cores do with y on its way to memory.
#pragma once

#include <functional>

#include "layers/activation/activation.h"
#include "layers/linear/linear.h"

namespace duet {

struct ReluEpilogue {
  __device__ __forceinline__ float operator()(float y) const { return ReluFunction().forward(y); }
};

/// Calls visit(function) with relu or the identity, as the problem has it.
template <class Visit>
void with_epilogue(const LinearProblem& problem, Visit&& visit) {
  problem.relu ? visit(ReluEpilogue()) : visit(std::identity());
}

}  // namespace duet
