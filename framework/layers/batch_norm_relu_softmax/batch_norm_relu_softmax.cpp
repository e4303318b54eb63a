#include "layers/batch_norm_relu_softmax/batch_norm_relu_softmax.h"

namespace duet {

// custom_cluster in the file of its name, the others in batch_norm_relu_softmax_composed.cpp.
ImplEntry<BatchNormReluSoftmaxProblem> batch_norm_relu_softmax_cpu_reference();
ImplEntry<BatchNormReluSoftmaxProblem> batch_norm_relu_softmax_cudnn();
ImplEntry<BatchNormReluSoftmaxProblem> batch_norm_relu_softmax_custom_cluster();
ImplEntry<BatchNormReluSoftmaxProblem> batch_norm_relu_softmax_custom_composed();

std::vector<ImplEntry<BatchNormReluSoftmaxProblem>>& batch_norm_relu_softmax_impls() {
  static std::vector<ImplEntry<BatchNormReluSoftmaxProblem>> list = {
    batch_norm_relu_softmax_cpu_reference(),
#if DUET_WITH_CUDA
    batch_norm_relu_softmax_custom_cluster(),
    batch_norm_relu_softmax_custom_composed(),
    batch_norm_relu_softmax_cudnn(),
#endif
  };
  return list;
}

BatchNormReluSoftmaxLayer::BatchNormReluSoftmaxLayer(ConfigReader& reader)
    : LayerOf("batch_norm1d_relu_softmax", batch_norm_relu_softmax_impls()),
      norm_(BatchNormParams::read(reader)) {}

BatchNormReluSoftmaxProblem BatchNormReluSoftmaxLayer::infer(const std::vector<TensorDesc>& inputs,
                                                             const LayerOptions& options) {
  const TensorDesc& x = inputs[0];
  if (x.shape.rank() != 2) {
    throw ShapeError(
        "takes features (N x F), not " + x.shape.to_string() +
        "; of images, whose softmax is over w alone, take batch_norm2d_relu and softmax");
  }
  const BatchNormReluSoftmaxProblem problem = {.norm = batch_norm_problem(norm_, x, true, options),
                                               .softmax = softmax_problem(x),
                                               .dtype = x.dtype};
  outputs_ = {x};
  parameters_ = batch_norm_parameters(problem.norm);
  return problem;
}

const LayerType& batch_norm1d_relu_softmax_type() {
  static const LayerType type =
      layer_type<BatchNormReluSoftmaxLayer, batch_norm_relu_softmax_impls>(
          "batch_norm1d_relu_softmax", "batch_norm1d, relu and softmax in one", {},
          {{{"batch_norm1d"}, {"relu"}, {"softmax"}}});
  return type;
}

}  // namespace duet
