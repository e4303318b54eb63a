// batch_norm2d_relu_pool cpu_reference, custom_composed, cudnn: the parts' own implementations.
#include "layers/batch_norm_relu/batch_norm_relu_parts.h"
#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"

namespace duet {
namespace {

/// The first two parts, and the id in the list of max pooling.
struct NormPoolParts {
  BatchNormReluParts first;
  std::string_view pool;
};
constexpr NormPoolParts kNormPoolCpuReference = {{"cpu_reference", "cpu_reference"},
                                                 "cpu_reference"};
constexpr NormPoolParts kNormPoolCustom = {{"custom_welford", ""}, "custom_vectorized"};
constexpr NormPoolParts kNormPoolCudnn = {{"cudnn", ""}, "cudnn"};

template <const NormPoolParts& ids>
std::optional<std::string> unsupported(const BatchNormReluPoolProblem& problem, Pass pass) {
  const Pool2dProblem& pool = problem.pool;
  if (problem.dtype == DType::kBFloat16 && (pool.stride_h < pool.r || pool.stride_w < pool.s)) {
    return "would round the sums of gradients where windows overlap to bfloat16 between its parts";
  }
  if (auto reason = ids.first.unsupported(problem.norm, pass)) return reason;
  return part_unsupported("max_pool2d", max_pool2d_impls(), ids.pool, pool, pass);
}

template <const NormPoolParts& ids>
std::unique_ptr<Implementation> make(const BatchNormReluPoolProblem& problem, Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  ids.first.add_to(*block, problem.norm, context);
  block->add("max_pool2d", max_pool2d_impls(), ids.pool, problem.pool, problem.norm.x, context);
  return block;
}

template <const NormPoolParts& ids>
ImplEntry<BatchNormReluPoolProblem> entry(std::string_view id, const std::vector<DType>& dtypes) {
  return {id, unsupported<ids>, make<ids>, false, dtypes};
}

}  // namespace

ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_cpu_reference() {
  return entry<kNormPoolCpuReference>("cpu_reference", reference_dtypes());
}
ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_composed() {
  return entry<kNormPoolCustom>("custom_composed", gpu_dtypes());
}
ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_cudnn() {
  return entry<kNormPoolCudnn>("cudnn", gpu_dtypes());
}

}  // namespace duet
