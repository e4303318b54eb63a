// batch_norm1d_relu_softmax cpu_reference, custom_composed, cudnn: the parts' own implementations.
#include "layers/batch_norm_relu/batch_norm_relu_parts.h"
#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"

namespace duet {
namespace {

using Problem = BatchNormReluSoftmaxProblem;

/// The first two parts, and the id in the list of softmax.
struct Parts {
  BatchNormReluParts first;
  std::string_view softmax;
};
constexpr Parts kCpuReference = {{"cpu_reference", "cpu_reference"}, "cpu_reference"};
constexpr Parts kCustom = {{"custom_welford", ""}, "custom_online"};
constexpr Parts kCudnn = {{"cudnn", "cudnn"}, "cudnn"};

template <const Parts& ids>
std::optional<std::string> unsupported(const Problem& problem, Pass pass) {
  if (auto reason = ids.first.unsupported(problem.norm, pass)) return reason;
  return part_unsupported("softmax", softmax_impls(), ids.softmax, problem.softmax, pass);
}

template <const Parts& ids>
std::unique_ptr<Implementation> make(const Problem& problem, Context& context) {
  auto block = std::make_unique<ComposedBlock>();
  ids.first.add_to(*block, problem.norm, context);
  block->add("softmax", softmax_impls(), ids.softmax, problem.softmax, problem.norm.x, context);
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
