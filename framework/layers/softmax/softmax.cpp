#include "layers/softmax/softmax.h"

namespace duet {

// Each in the file of its name.
ImplEntry<SoftmaxProblem> softmax_cpu_reference();
ImplEntry<SoftmaxProblem> softmax_custom_online();
ImplEntry<SoftmaxProblem> softmax_custom_warp_shuffle();
ImplEntry<SoftmaxProblem> softmax_custom_shared_memory();
ImplEntry<SoftmaxProblem> softmax_custom_naive();
ImplEntry<SoftmaxProblem> softmax_cudnn();

std::vector<ImplEntry<SoftmaxProblem>>& softmax_impls() {
  static std::vector<ImplEntry<SoftmaxProblem>> list = {
    softmax_cpu_reference(),
#if DUET_WITH_CUDA
    softmax_custom_online(),
    softmax_custom_warp_shuffle(),
    softmax_custom_shared_memory(),
    softmax_custom_naive(),
    softmax_cudnn(),
#endif
  };
  return list;
}

namespace {

class SoftmaxLayer : public LayerOf<SoftmaxLayer, SoftmaxProblem> {
 public:
  SoftmaxLayer() : LayerOf("softmax", softmax_impls()) {}

  SavedTensors saved(Pass) const override { return {.y = true}; }

 protected:
  SoftmaxProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    outputs_ = {inputs[0]};
    return softmax_problem(inputs[0]);
  }
};

}  // namespace

SoftmaxProblem softmax_problem(const TensorDesc& x) {
  if (x.shape.rank() == 0) throw ShapeError("takes a tensor with a last axis, not a scalar");
  const SoftmaxProblem problem = {.x = x, .dtype = x.dtype};
  constexpr int64_t kMost = int64_t{1} << 30;
  if (problem.rows() > kMost || problem.columns() > kMost) {
    throw ShapeError("takes at most 2^30 rows and columns, not " + x.shape.to_string());
  }
  return problem;
}

const LayerType& softmax_type() {
  static const LayerType type = layer_type<SoftmaxLayer, softmax_impls>(
      "softmax", "y = exp(x) / sum of exp(x) over the last axis");
  return type;
}

}  // namespace duet
