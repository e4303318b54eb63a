#include "layers/batch_norm_relu_pool/batch_norm_relu_pool.h"

namespace duet {

// custom_cluster and custom_welford in the files of their names, the others in batch_norm_relu_pool_composed.cpp.
ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_cpu_reference();
ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_cudnn();
ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_cluster();
ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_composed();
ImplEntry<BatchNormReluPoolProblem> batch_norm_relu_pool_custom_welford();

std::vector<ImplEntry<BatchNormReluPoolProblem>>& batch_norm_relu_pool_impls() {
  static std::vector<ImplEntry<BatchNormReluPoolProblem>> list = {
    batch_norm_relu_pool_cpu_reference(),
#if DUET_WITH_CUDA
    batch_norm_relu_pool_custom_welford(),
    batch_norm_relu_pool_custom_cluster(),
    batch_norm_relu_pool_custom_composed(),
    batch_norm_relu_pool_cudnn(),
#endif
  };
  return list;
}

std::string BatchNormReluPoolProblem::to_string() const {
  const auto by = [](int a, int b) { return std::to_string(a) + "x" + std::to_string(b); };
  return norm.to_string() + " pool=" + by(pool.r, pool.s) +
         " pool_stride=" + by(pool.stride_h, pool.stride_w) +
         " pool_pad=" + by(pool.pad_h, pool.pad_w);
}

BatchNormReluPoolLayer::BatchNormReluPoolLayer(ConfigReader& reader)
    : LayerOf("batch_norm2d_relu_pool", batch_norm_relu_pool_impls()),
      norm_(BatchNormParams::read(reader)),
      pool_(Pool2dParams::read(reader, PoolKind::kMax, "pool_")) {}

BatchNormReluPoolProblem BatchNormReluPoolLayer::infer(const std::vector<TensorDesc>& inputs,
                                                       const LayerOptions& options) {
  const TensorDesc& x = inputs[0];
  const BatchNormReluPoolProblem problem = {.norm = batch_norm_problem(norm_, x, true, options),
                                            .pool = pool2d_problem(PoolKind::kMax, pool_, x),
                                            .dtype = x.dtype};
  outputs_ = {problem.pool.y_desc()};
  parameters_ = batch_norm_parameters(problem.norm);
  return problem;
}

const LayerType& batch_norm2d_relu_pool_type() {
  static const LayerType type = layer_type<BatchNormReluPoolLayer, batch_norm_relu_pool_impls>(
      "batch_norm2d_relu_pool", "batch_norm2d, relu and max pooling in one",
      {{"pool", "pool_kernel"}, {"pool_pad", "pool_padding"}},
      {{{"batch_norm2d"}, {"relu"}, {"max_pool2d", "pool_"}},
       {{"batch_norm2d"}, {"max_pool2d", "pool_"}, {"relu"}}});
  return type;
}

}  // namespace duet
