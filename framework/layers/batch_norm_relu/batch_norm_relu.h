// batch_norm2d_relu and batch_norm1d_relu: batch normalisation and relu as one layer.
//
//   y = relu(batch_norm(x))
//
// What batch_norm.h says of statistics, buffers, evaluation, keys and parameters holds here, with
// relu's gradient, dy where y > 0 and else 0, in the place of dy. Parameters and buffers have the
// same names, so that a checkpoint is that of the two layers.
#pragma once

#include "layers/batch_norm/batch_norm.h"

namespace duet {

/// Its problem has relu set.
class BatchNormReluLayer : public BatchNormLayer {
 public:
  /// Of rank 4 (batch_norm2d_relu) or 2 (batch_norm1d_relu).
  BatchNormReluLayer(int rank, const BatchNormParams& params);

  std::string_view type() const override {
    return rank() == 4 ? "batch_norm2d_relu" : "batch_norm1d_relu";
  }
  std::unique_ptr<Layer> clone() const override {
    return std::make_unique<BatchNormReluLayer>(*this);
  }
  /// Each family keeps its own kind of state from forward.
  bool shares_state(std::string_view a, std::string_view b) const override {
    return family_of(a) == family_of(b);
  }
  /// Where what relu reads is nearly 0, in training or in evaluation.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>& w,
              std::vector<std::vector<double>>& dy) const override;
  std::vector<std::vector<double>> sizes(Pass pass, bool training,
                                         const std::vector<std::vector<double>>& x,
                                         const std::vector<std::vector<double>>& w,
                                         const std::vector<std::vector<double>>& dy) const override;

 protected:
  BatchNormProblem infer(const std::vector<TensorDesc>& inputs,
                         const LayerOptions& options) override;
};

const LayerType& batch_norm1d_relu_type();
const LayerType& batch_norm2d_relu_type();

}  // namespace duet
