#include "layers/batch_norm_relu/batch_norm_relu_parts.h"

#include "layers/activation/activation.h"

namespace duet {
namespace {

std::string_view type_of(const BatchNormProblem& problem) {
  const bool image = problem.x.shape.rank() == 4;
  if (problem.relu) return image ? "batch_norm2d_relu" : "batch_norm1d_relu";
  return image ? "batch_norm2d" : "batch_norm1d";
}
const std::vector<ImplEntry<BatchNormProblem>>& list_of(const BatchNormProblem& problem) {
  return problem.relu ? batch_norm_relu_impls() : batch_norm_impls();
}
BatchNormProblem with_relu(BatchNormProblem problem, bool relu) {
  problem.relu = relu;
  return problem;
}
ActivationProblem relu_of(const BatchNormProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.x, .dtype = problem.dtype};
}

}  // namespace

std::optional<std::string> BatchNormReluParts::unsupported(const BatchNormProblem& problem,
                                                           Pass pass) const {
  const BatchNormProblem first = with_relu(problem, relu.empty());
  auto reason = part_unsupported(type_of(first), list_of(first), norm, first, pass);
  if (reason || relu.empty()) return reason;
  return part_unsupported("relu", relu_impls(), relu, relu_of(problem), pass);
}

void BatchNormReluParts::add_to(ComposedBlock& block, const BatchNormProblem& problem,
                                Context& context) const {
  const BatchNormProblem first = with_relu(problem, relu.empty());
  const auto& list = list_of(first);
  std::string_view id = norm;
  if (relu.empty()) {
    const Family family = family_of(norm);
    if (const auto* entry = choice_of(list, family, first, two_passes(), context.workspace_limit()))
      id = entry->id;
  }
  block.add(type_of(first), list, id, first, problem.x, context);
  if (!relu.empty()) {
    block.add("relu", relu_impls(), relu, relu_of(problem), problem.x, context);
  }
}

}  // namespace duet
