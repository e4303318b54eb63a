// batch_norm2d_relu and batch_norm1d_relu cpu_reference, custom_composed, cudnn, cudnn_persistent: the
// parts' own implementations.
#include "layers/activation/activation.h"
#include "layers/batch_norm/batch_norm.h"
#include "layers/composed_block.h"

namespace duet {
namespace {

/// Ids in the lists of batch_norm and relu.
struct NormParts {
  std::string_view norm, relu;
};
constexpr NormParts kNormCpuReference = {"cpu_reference", "cpu_reference"};
constexpr NormParts kNormCustom = {"custom_welford",
                                   "custom_vectorized"};  // all of batch_norm have its limits
constexpr NormParts kNormCudnn = {"cudnn", "cudnn"};
constexpr NormParts kNormCudnnPersistent = {"cudnn_persistent", "cudnn"};

BatchNormProblem norm_problem(BatchNormProblem problem) {
  problem.relu = false;
  return problem;
}
ActivationProblem relu_problem(const BatchNormProblem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.x, .dtype = problem.dtype};
}

template <const NormParts& ids>
std::optional<std::string> unsupported(const BatchNormProblem& problem, Pass pass) {
  auto reason =
      part_unsupported("batch_norm", batch_norm_impls(), ids.norm, norm_problem(problem), pass);
  if (reason) return reason;
  return part_unsupported("relu", relu_impls(), ids.relu, relu_problem(problem), pass);
}

std::unique_ptr<Implementation> compose(const NormParts& ids, const BatchNormProblem& problem,
                                        Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  block->add("batch_norm", batch_norm_impls(), ids.norm, norm_problem(problem), problem.x, context);
  block->add("relu", relu_impls(), ids.relu, relu_problem(problem), problem.x, context);
  return block;
}
template <const NormParts& ids>
std::unique_ptr<Implementation> make(const BatchNormProblem& problem, Context& context) {
  return compose(ids, problem, context);
}
/// By what a batch normalisation of the family would run by.
std::unique_ptr<Implementation> make_custom(const BatchNormProblem& problem, Context& context) {
  const auto* const norm = choice_of(batch_norm_impls(), Family::kCustom, norm_problem(problem),
                                     two_passes(), context.workspace_limit());
  return compose({norm->id, kNormCustom.relu}, problem, context);
}

template <const NormParts& ids>
ImplEntry<BatchNormProblem> entry(const std::vector<DType>& dtypes) {
  // As the implementation of batch normalisation.
  return {ids.norm, unsupported<ids>, make<ids>, false, dtypes};
}

}  // namespace

ImplEntry<BatchNormProblem> batch_norm_relu_cpu_reference() {
  return entry<kNormCpuReference>(reference_dtypes());
}
ImplEntry<BatchNormProblem> batch_norm_relu_custom_composed() {
  return {"custom_composed", unsupported<kNormCustom>, make_custom, false, gpu_dtypes()};
}
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn() { return entry<kNormCudnn>(gpu_dtypes()); }
ImplEntry<BatchNormProblem> batch_norm_relu_cudnn_persistent() {
  return entry<kNormCudnnPersistent>(gpu_dtypes());
}

}  // namespace duet
