// softmax_dropout custom_composed, cudnn: the parts' own implementations, one after the other.
#include "layers/composed_block.h"
#include "layers/softmax_dropout/softmax_dropout.h"

namespace duet {
namespace {

/// Ids in the lists of softmax and dropout. cuDNN's dropout cannot draw the mask.
struct Parts {
  std::string_view softmax, dropout;
};
constexpr Parts kCustom = {"custom_online", "custom_recompute"};
constexpr Parts kCudnn = {"cudnn", "custom_recompute"};

template <const Parts& ids>
std::optional<std::string> unsupported(const SoftmaxDropoutProblem& problem, Pass pass) {
  auto reason = part_unsupported("softmax", softmax_impls(), ids.softmax, problem.softmax, pass);
  if (reason) return reason;
  return part_unsupported("dropout", dropout_impls(), ids.dropout, problem.dropout, pass);
}

// What lies between would be rounded twice in bfloat16.
template <const Parts& ids>
ImplEntry<SoftmaxDropoutProblem> entry(std::string_view id) {
  const auto make = [](const SoftmaxDropoutProblem& problem, Context& context) {
    auto block = std::make_unique<ComposedBlock>();
    const TensorDesc& x = problem.softmax.x;
    block->add("softmax", softmax_impls(), ids.softmax, problem.softmax, x, context);
    block->add("dropout", dropout_impls(), ids.dropout, problem.dropout, x, context);
    return std::unique_ptr<Implementation>(std::move(block));
  };
  return {id, unsupported<ids>, make};
}

}  // namespace

ImplEntry<SoftmaxDropoutProblem> softmax_dropout_custom_composed() {
  return entry<kCustom>("custom_composed");
}
ImplEntry<SoftmaxDropoutProblem> softmax_dropout_cudnn() { return entry<kCudnn>("cudnn"); }

}  // namespace duet
