// batch_norm1d_relu_softmax cpu_reference, custom_composed, cudnn: the parts' own implementations.
#include "layers/batch_norm_relu/batch_norm_relu_parts.h"
#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"

namespace duet {
namespace {

/// The first two parts, and the id in the list of softmax.
struct NormSoftmaxParts {
  BatchNormReluParts first;
  std::string_view softmax;
};
constexpr NormSoftmaxParts kNormSoftmaxCpuReference = {{"cpu_reference", "cpu_reference"},
                                                       "cpu_reference"};
constexpr NormSoftmaxParts kNormSoftmaxCustom = {{"custom_welford", ""}, "custom_online"};
constexpr NormSoftmaxParts kNormSoftmaxCudnn = {{"cudnn", "cudnn"}, "cudnn"};

template <const NormSoftmaxParts& ids>
std::optional<std::string> unsupported(const BatchNormReluSoftmaxProblem& problem, Pass pass) {
  if (auto reason = ids.first.unsupported(problem.norm, pass)) return reason;
  return part_unsupported("softmax", softmax_impls(), ids.softmax, problem.softmax, pass);
}

template <const NormSoftmaxParts& ids>
std::unique_ptr<Implementation> make(const BatchNormReluSoftmaxProblem& problem, Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  ids.first.add_to(*block, problem.norm, context);
  block->add("softmax", softmax_impls(), ids.softmax, problem.softmax, problem.norm.x, context);
  return block;
}

// What lies between would be rounded to bfloat16 before the exponential.
template <const NormSoftmaxParts& ids>
ImplEntry<BatchNormReluSoftmaxProblem> entry(std::string_view id,
                                             const std::vector<DType>& dtypes) {
  return {id, unsupported<ids>, make<ids>, false, dtypes};
}

}  // namespace

ImplEntry<BatchNormReluSoftmaxProblem> batch_norm_relu_softmax_cpu_reference() {
  return entry<kNormSoftmaxCpuReference>("cpu_reference", {DType::kFloat32, DType::kFloat64});
}
ImplEntry<BatchNormReluSoftmaxProblem> batch_norm_relu_softmax_custom_composed() {
  return entry<kNormSoftmaxCustom>("custom_composed", {DType::kFloat32});
}
ImplEntry<BatchNormReluSoftmaxProblem> batch_norm_relu_softmax_cudnn() {
  return entry<kNormSoftmaxCudnn>("cudnn", {DType::kFloat32});
}

}  // namespace duet
