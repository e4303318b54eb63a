#include "layers/softmax_cross_entropy/softmax_cross_entropy.h"

namespace duet {

// Each in the file of its name.
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cpu_reference();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_warp();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_custom_naive();
ImplEntry<SoftmaxCrossEntropyProblem> softmax_cross_entropy_cudnn();

std::vector<ImplEntry<SoftmaxCrossEntropyProblem>>& softmax_cross_entropy_impls() {
  static std::vector<ImplEntry<SoftmaxCrossEntropyProblem>> list = {
    softmax_cross_entropy_cpu_reference(),
#if DUET_WITH_CUDA
    softmax_cross_entropy_custom_warp(),
    softmax_cross_entropy_custom_naive(),
    softmax_cross_entropy_cudnn(),
#endif
  };
  return list;
}

std::string SoftmaxCrossEntropyProblem::to_string() const {
  const std::string text = "n=" + std::to_string(n) + " c=" + std::to_string(c);
  return dtype == DType::kFloat32 ? text : text + " " + std::string(duet::to_string(dtype));
}

namespace {

class SoftmaxCrossEntropyLayer
    : public LayerOf<SoftmaxCrossEntropyLayer, SoftmaxCrossEntropyProblem> {
 public:
  SoftmaxCrossEntropyLayer() : LayerOf("softmax_cross_entropy", softmax_cross_entropy_impls()) {}

  bool takes_labels() const override { return true; }

 protected:
  SoftmaxCrossEntropyProblem infer(const std::vector<TensorDesc>& inputs,
                                   const LayerOptions&) override {
    const TensorDesc& x = inputs[0];
    if (x.shape.rank() != 2) {
      throw ShapeError("takes logits N x C, not " + x.shape.to_string() +
                       "; put flatten or linear before it");
    }
    const TensorDesc labels{{x.shape[0]}, DType::kInt32};
    if (inputs[1].shape != labels.shape || inputs[1].dtype != labels.dtype) {
      throw ShapeError("takes labels " + labels.to_string() + ", not " + inputs[1].to_string());
    }
    if (x.elements() > ConfigReader::kMaxInteger) throw ShapeError("takes fewer than 2^31 logits");
    outputs_ = {TensorDesc{{1}, accumulator_of(x.dtype)}, TensorDesc{{2}, DType::kInt32}};
    return {.n = static_cast<int>(x.shape[0]), .c = static_cast<int>(x.shape[1]), .dtype = x.dtype};
  }
};

}  // namespace

const LayerType& softmax_cross_entropy_type() {
  static const LayerType type = layer_type<SoftmaxCrossEntropyLayer, softmax_cross_entropy_impls>(
      "softmax_cross_entropy", "loss = mean of -log softmax(x)[label]; counts the hits");
  return type;
}

}  // namespace duet
