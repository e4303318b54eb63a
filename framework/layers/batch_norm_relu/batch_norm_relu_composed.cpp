// batch_norm2d_relu and batch_norm1d_relu cpu_reference, custom_composed, cudnn, cudnn_persistent: the
// parts' own implementations.
#include "layers/activation/activation.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/composed_block.h"

namespace duet {
namespace {

/// Ids in the lists of batch_norm and relu.
struct Parts {
  std::string_view norm, relu;
};
constexpr Parts kCpuReference = {"cpu_reference", "cpu_reference"};
constexpr Parts kCustom = {"custom_welford",
                           "custom_vectorized"};  // all of batch_norm have its limits
constexpr Parts kCudnn = {"cudnn", "cudnn"};
constexpr Parts kCudnnPersistent = {"cudnn_persistent", "cudnn"};

BatchNormProblem norm_problem(BatchNormProblem problem) {
  problem.relu = false;
  return problem;
}
ActivationProblem relu_problem(const BatchNormProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.x, .dtype = problem.dtype};
}

template <const Parts& ids>
std::optional<std::string> unsupported(const BatchNormProblem& problem, Pass pass) {
  auto reason =
      part_unsupported("batch_norm", batch_norm_impls(), ids.norm, norm_problem(problem), pass);
  if (reason) return reason;
  return part_unsupported("relu", relu_impls(), ids.relu, relu_problem(problem), pass);
}

std::unique_ptr<Implementation> compose(const Parts& ids, const BatchNormProblem& problem,
                                        Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  block->add("batch_norm", batch_norm_impls(), ids.norm, norm_problem(problem), problem.x, context);
  block->add("relu", relu_impls(), ids.relu, relu_problem(problem), problem.x, context);
  return block;
}
template <const Parts& ids>
std::unique_ptr<Implementation> make(const BatchNormProblem& problem, Context& context) {
  return compose(ids, problem, context);
}
/// By what a batch normalisation of the family would run by.
std::unique_ptr<Implementation> make_custom(const BatchNormProblem& problem, Context& context) {
  const auto* const norm = choice_of(batch_norm_impls(), Family::kCustom, norm_problem(problem),
                                     two_passes(), context.workspace_limit());
  return compose({norm->id, kCustom.relu}, problem, context);
}

template <const Parts& ids>
ImplEntry<BatchNormProblem> entry(const std::vector<DType>& dtypes) {
  // As the implementation of batch normalisation.
  return {ids.norm, unsupported<ids>, make<ids>, false, dtypes};
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_relu_cpu_reference() {
  return entry<kCpuReference>(reference_dtypes());
}
ImplEntry<BatchNormProblem> batch_norm_relu_custom_composed() {
  return {"custom_composed", unsupported<kCustom>, make_custom, false, gpu_dtypes()};
}
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn() { return entry<kCudnn>(gpu_dtypes()); }
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn_persistent() {
  return entry<kCudnnPersistent>(gpu_dtypes());
}

}  // namespace duet
