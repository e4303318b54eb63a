#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"

#include "layers/composed_block.h"

namespace duet {

// Those of the CPU, custom_composed and those of cudnn in conv2d_pool_relu_composed.cpp, the others each
// in the file of its name.
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cpu_blas();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_cudnn_graph();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_composed();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_direct();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_direct_3xtf32();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_fused();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_mma();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_split_k();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_wgmma();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd();
ImplEntry<Conv2dPoolReluProblem> conv2d_pool_relu_custom_winograd_3xtf32();

std::vector<ImplEntry<Conv2dPoolReluProblem>>& conv2d_pool_relu_impls() {
  static std::vector<ImplEntry<Conv2dPoolReluProblem>> list = {
    conv2d_pool_relu_cpu_blas(),
    conv2d_pool_relu_cpu_reference(),
#if DUET_WITH_CUDA
    conv2d_pool_relu_custom_direct(),
    conv2d_pool_relu_custom_winograd(),
    conv2d_pool_relu_custom_wgmma(),
    conv2d_pool_relu_custom_mma(),
    conv2d_pool_relu_custom_split_k(),
    conv2d_pool_relu_custom_fused(),
    conv2d_pool_relu_custom_direct_3xtf32(),
    conv2d_pool_relu_custom_winograd_3xtf32(),
    conv2d_pool_relu_custom_composed(),
    conv2d_pool_relu_cudnn(),
    conv2d_pool_relu_cudnn_graph(),
#endif
  };
  return list;
}

std::string Conv2dPoolReluProblem::to_string() const {
  return conv.to_string() + " pool=" + std::to_string(pool.r) + "x" + std::to_string(pool.s) +
         " pool_stride=" + std::to_string(pool.stride_h) + "x" + std::to_string(pool.stride_w) +
         " pool_pad=" + std::to_string(pool.pad_h) + "x" + std::to_string(pool.pad_w);
}

Conv2dPoolReluLayer::Conv2dPoolReluLayer(ConfigReader& reader)
    : LayerOf("conv2d_pool_relu", conv2d_pool_relu_impls(), three_passes()),
      params_{.conv = Conv2dParams::read(reader),
              .pool = Pool2dParams::read(reader, PoolKind::kMax, "pool_")} {}

bool Conv2dPoolReluLayer::shares_state(std::string_view a, std::string_view b) const {
  return family_of(a) == family_of(b) && is_composed(a) == is_composed(b);
}

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
  static const LayerType type = [] {
    std::vector<ShapeWord> words = conv2d_shape_words();
    words.insert(words.end(), {{"pool", "pool_kernel"}, {"pool_pad", "pool_padding"}});
    return layer_type<Conv2dPoolReluLayer, conv2d_pool_relu_impls>(
        "conv2d_pool_relu", "convolution, max pooling and relu in one", words,
        {{{"conv2d"}, {"max_pool2d", "pool_"}, {"relu"}},
         {{"conv2d"}, {"relu"}, {"max_pool2d", "pool_"}}});
  }();
  return type;
}

}  // namespace duet
