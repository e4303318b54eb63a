// Batch normalisation and relu as the first parts of a composed block.
#pragma once

#include "layers/batch_norm/batch_norm.h"
#include "layers/composed_block.h"

namespace duet {

/// Ids in the lists of batch normalisation and relu. Without one of relu both are one part, by what a network would run
/// their own block by in the family of `norm`, which has `norm`'s limits.
struct BatchNormReluParts {
  std::string_view norm, relu;

  std::optional<std::string> unsupported(const BatchNormProblem& problem, Pass pass) const;
  void add_to(ComposedBlock& block, const BatchNormProblem& problem, Context& context) const;
};

}  // namespace duet
