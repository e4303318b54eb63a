// batch_norm2d_relu_pool cpu_reference, custom_composed, cudnn: the parts' own implementations.
#include "layers/activation/activation.h"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"
#include "layers/composed_block.h"

namespace duet {
namespace {

using Problem = BatchNormReluPoolProblem;

/// Ids in the lists of batch normalisation, relu and max pooling. Without one of relu, the first is
/// in the list of batch_norm2d_relu.
struct Parts {
  std::string_view norm, relu, pool;

  const std::vector<ImplEntry<BatchNormProblem>>& norm_list() const {
    return relu.empty() ? batch_norm_relu_impls() : batch_norm_impls();
  }
  std::string_view norm_type() const { return relu.empty() ? "batch_norm2d_relu" : "batch_norm2d"; }
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
constexpr Parts kCustom = {"custom_welford", "", "custom_vectorized"};
constexpr Parts kCudnn = {"cudnn", "cudnn", "cudnn"};

ActivationProblem relu_problem(const Problem& problem) {
  return {.kind = ActivationKind::kRelu, .x = problem.norm.x, .dtype = problem.dtype};
}

template <const Parts& ids>
std::optional<std::string> unsupported(const Problem& problem, Pass pass) {
  const Pool2dProblem& pool = problem.pool;
  if (problem.dtype == DType::kBFloat16 && (pool.stride_h < pool.r || pool.stride_w < pool.s)) {
    return "would round the sums of gradients where windows overlap to bfloat16 between its parts";
  }
  auto reason =
      part_unsupported(ids.norm_type(), ids.norm_list(), ids.norm, ids.norm_problem(problem), pass);
  if (!reason && !ids.relu.empty()) {
    reason = part_unsupported("relu", relu_impls(), ids.relu, relu_problem(problem), pass);
  }
  if (reason) return reason;
  return part_unsupported("max_pool2d", max_pool2d_impls(), ids.pool, pool, pass);
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
  block->add("max_pool2d", max_pool2d_impls(), ids.pool, problem.pool, x, context);
  return block;
}

template <const Parts& ids>
ImplEntry<Problem> entry(std::string_view id, const std::vector<DType>& dtypes) {
  return {id, unsupported<ids>, make<ids>, false, dtypes};
}

}  // namespace

ImplEntry<Problem> batch_norm_relu_pool_cpu_reference() {
  return entry<kCpuReference>("cpu_reference", reference_dtypes());
}
ImplEntry<Problem> batch_norm_relu_pool_custom_composed() {
  return entry<kCustom>("custom_composed", gpu_dtypes());
}
ImplEntry<Problem> batch_norm_relu_pool_cudnn() { return entry<kCudnn>("cudnn", gpu_dtypes()); }

}  // namespace duet
