// batch_norm2d_relu_pool: batch normalisation of images, relu and max pooling as one layer.
//
//   y = max_pool2d(relu(batch_norm2d(x)))
//
// The order of the last two does not matter (conv2d_pool_relu/README.md), so that this layer stands
// for both. Keys: batch_norm2d's; and pool_kernel (required; k or [r, s]), pool_stride (default:
// pool_kernel), pool_padding 0. Parameters, buffers, and what training and evaluation differ in:
// batch_norm2d's. The gradient is batch normalisation's for what pooling and relu hand on of dy: all
// of it at the largest value of a window if that is above 0 (or NaN), and nothing elsewhere.
#pragma once

#include "layers/batch_norm/batch_norm.h"
#include "layers/pool2d/pool2d.h"

namespace duet {

/// Tensors: x is norm's; y and dy are pool's. What is between them is no tensor of this layer.
struct BatchNormReluPoolProblem {
  BatchNormProblem norm;  // its relu is set
  Pool2dProblem pool;     // its x is norm's y
  DType dtype = DType::kFloat32;

  std::string to_string() const;
};

class BatchNormReluPoolLayer : public LayerOf<BatchNormReluPoolLayer, BatchNormReluPoolProblem> {
 public:
  explicit BatchNormReluPoolLayer(ConfigReader& reader);

  bool change_option(size_t number) override {
    constexpr size_t kOfNorm = BatchNormParams::kOptions;
    return number < kOfNorm ? norm_.change_option(number)
                            : pool_.change_option(number - kOfNorm, PoolKind::kMax);
  }
  std::optional<std::string> untrainable() const override { return problem().norm.untrainable(); }
  SavedTensors saved(Pass) const override { return {.x = true}; }
  /// Where the two largest of a window, or the largest and 0, are nearly equal, in training or in
  /// evaluation. Values of equal x are equal to all.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>& w,
              std::vector<std::vector<double>>& dy) const override;
  bool cancels() const override { return true; }
  std::vector<std::vector<double>> sizes(Pass pass, bool training,
                                         const std::vector<std::vector<double>>& x,
                                         const std::vector<std::vector<double>>& w,
                                         const std::vector<std::vector<double>>& dy) const override;

 protected:
  BatchNormReluPoolProblem infer(const std::vector<TensorDesc>& inputs,
                                 const LayerOptions& options) override;

 private:
  BatchNormParams norm_;
  Pool2dParams pool_;
};

const LayerType& batch_norm2d_relu_pool_type();

std::vector<ImplEntry<BatchNormReluPoolProblem>>& batch_norm_relu_pool_impls();

}  // namespace duet
