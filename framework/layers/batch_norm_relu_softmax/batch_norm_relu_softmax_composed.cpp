// batch_norm1d_relu_softmax cpu_reference, custom_composed, cudnn: the parts' own implementations.
#include "layers/activation/activation.h"
#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"
#include "layers/composed_block.h"

namespace duet {
namespace {

using Problem = BatchNormReluSoftmaxProblem;

/// Ids in the lists of batch normalisation, relu and softmax. Without one of relu, the first is in the
/// list of batch_norm1d_relu.
struct Parts {
  std::string_view norm, relu, softmax;

  const std::vector<ImplEntry<BatchNormProblem>>& norm_list() const {
    return relu.empty() ? batch_norm_relu_impls() : batch_norm_impls();
  }
  std::string_view norm_type() const { return relu.empty() ? "batch_norm1d_relu" : "batch_norm1d"; }
  BatchNormProblem norm_problem(const Problem& problem) const {
    BatchNormProblem norm = problem.norm;
    norm.relu = relu.empty();
    return norm;
  }
  /// Without one of relu: custom_cluster, with the same limits, where its list prefers that.
  std::string_view norm_id(const Problem& problem, const Context& context) const {
    if (!relu.empty()) return norm;
    const auto& cluster = entry_of(norm_list(), "custom_cluster");
    const bool preferred =
        cluster.preferred(norm_problem(problem), Pass::kForward, context.workspace_limit());
    return preferred ? cluster.id : norm;
  }
};
constexpr Parts kCpuReference = {"cpu_reference", "cpu_reference", "cpu_reference"};
constexpr Parts kCustom = {"custom_welford", "", "custom_online"};
constexpr Parts kCudnn = {"cudnn", "cudnn", "cudnn"};

ActivationProblem relu_problem(const Problem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.norm.x, .dtype = problem.dtype};
}

template <const Parts& ids>
std::optional<std::string> unsupported(const Problem& problem, Pass pass) {
  auto reason =
      part_unsupported(ids.norm_type(), ids.norm_list(), ids.norm, ids.norm_problem(problem), pass);
  if (!reason && !ids.relu.empty()) {
    reason = part_unsupported("relu", relu_impls(), ids.relu, relu_problem(problem), pass);
  }
  if (reason) return reason;
  return part_unsupported("softmax", softmax_impls(), ids.softmax, problem.softmax, pass);
}

template <const Parts& ids>
std::unique_ptr<Implementation> make(const Problem& problem, Context& context) {
  const TensorDesc& x = problem.norm.x;
  auto block = std::make_unique<ComposedBlock>();
  block->add(ids.norm_type(), ids.norm_list(), ids.norm_id(problem, context),
             ids.norm_problem(problem), x, context);
  if (!ids.relu.empty()) {
    block->add("relu", relu_impls(), ids.relu, relu_problem(problem), x, context);
  }
  block->add("softmax", softmax_impls(), ids.softmax, problem.softmax, x, context);
  return block;
}

// What lies between would be rounded to bfloat16 before the exponential.
template <const Parts& ids>
ImplEntry<Problem> entry(std::string_view id, const std::vector<DType>& dtypes) {
  return {id, unsupported<ids>, make<ids>, false, dtypes};
}

}  // namespace

ImplEntry<Problem> batch_norm_relu_softmax_cpu_reference() {
  return entry<kCpuReference>("cpu_reference", {DType::kFloat32, DType::kFloat64});
}
ImplEntry<Problem> batch_norm_relu_softmax_custom_composed() {
  return entry<kCustom>("custom_composed", {DType::kFloat32});
}
ImplEntry<Problem> batch_norm_relu_softmax_cudnn() {
  return entry<kCudnn>("cudnn", {DType::kFloat32});
}

}  // namespace duet
