#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

#include "layers/conv2d_pool_relu/conv2d_pool_relu_impls.h"

namespace duet {

Conv2dPoolReluParams Conv2dPoolReluParams::read(ConfigReader& reader) {
  return {.conv = Conv2dParams::read(reader),
          .pool = Pool2dParams::read(reader, PoolKind::kMax, "pool_")};
}

std::string Conv2dPoolReluProblem::to_string() const {
  return conv.to_string() + " pool=" + std::to_string(pool.r) + "x" + std::to_string(pool.s) +
         " pool_stride=" + std::to_string(pool.stride_h) + "x" + std::to_string(pool.stride_w) +
         " pool_pad=" + std::to_string(pool.pad_h) + "x" + std::to_string(pool.pad_w);
}

Conv2dPoolReluLayer::Conv2dPoolReluLayer(const Conv2dPoolReluParams& params)
    : LayerOf(conv2d_pool_relu_impls()), params_(params) {}

Conv2dPoolReluProblem Conv2dPoolReluLayer::infer(const std::vector<TensorDesc>& inputs,
                                                 const LayerOptions& options) {
  const Conv2dProblem conv = conv2d_problem(params_.conv, inputs[0], options);
  const auto pool = [&] {
    try {
      return pool2d_problem(PoolKind::kMax, params_.pool, conv.y_desc());
    } catch (const ShapeError& e) {
      throw ShapeError("after the convolution, pooling: " + std::string(e.what()));
    }
  };
  const Conv2dPoolReluProblem problem = {.conv = conv, .pool = pool(), .dtype = conv.dtype};
  outputs_ = {problem.y_desc()};
  parameters_ = conv2d_parameters(conv, params_.conv.init);
  return problem;
}

const LayerType& conv2d_pool_relu_type() {
  static const LayerType type = {
      "conv2d_pool_relu",
      "convolution, max pooling and relu in one",
      [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        return std::make_unique<Conv2dPoolReluLayer>(Conv2dPoolReluParams::read(reader));
      },
      [] { return Conv2dPoolReluLayer::infos(conv2d_pool_relu_impls()); },
      [] {
        std::vector<ShapeWord> words = conv2d_shape_words();
        words.insert(words.end(), {{"pool", "pool_kernel"}, {"pool_pad", "pool_padding"}});
        return words;
      }(),
      {{{"conv2d"}, {"max_pool2d", "pool_"}, {"relu"}},
       {{"conv2d"}, {"relu"}, {"max_pool2d", "pool_"}}}};
  return type;
}

}  // namespace duet
