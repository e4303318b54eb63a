// batch_norm1d_relu_softmax: batch normalisation of features, relu and softmax as one layer.
//
//   y = softmax(relu(batch_norm1d(x)))
//
// x is N x F: statistics are over the batch, a feature at a time, and the softmax is over the features of
// a row. Keys, parameters, buffers, and what training and evaluation differ in: batch_norm1d's. Not
// finite values: a NaN or an infinity that reaches the softmax makes its row NaN.
//   dx = batch normalisation's gradient of y * (dy - sum over the row of dy * y) where relu's output
//        is above 0, and of 0 elsewhere
#pragma once

#include "layers/batch_norm/batch_norm.h"
#include "layers/softmax/softmax.h"

namespace duet {

/// x, y, dx and dy have one desc.
struct BatchNormReluSoftmaxProblem {
  BatchNormProblem norm;  // its relu is set
  SoftmaxProblem softmax;
  DType dtype = DType::kFloat32;

  std::string to_string() const { return norm.to_string(); }
};

class BatchNormReluSoftmaxLayer
    : public LayerOf<BatchNormReluSoftmaxLayer, BatchNormReluSoftmaxProblem> {
 public:
  explicit BatchNormReluSoftmaxLayer(ConfigReader& reader);

  bool change_option(size_t number) override { return norm_.change_option(number); }
  std::optional<std::string> untrainable() const override { return problem().norm.untrainable(); }
  /// Rows in which what relu reads is nearly 0 somewhere, in training or in evaluation: there the
  /// gradient of a feature depends on dy of the whole row.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>& w,
              std::vector<std::vector<double>>& dy) const override;
  bool cancels() const override { return true; }
  SavedTensors saved(Pass) const override { return {.x = true}; }
  std::vector<std::vector<double>> sizes(Pass pass, bool training,
                                         const std::vector<std::vector<double>>& x,
                                         const std::vector<std::vector<double>>& w,
                                         const std::vector<std::vector<double>>& dy) const override;

 protected:
  BatchNormReluSoftmaxProblem infer(const std::vector<TensorDesc>& inputs,
                                    const LayerOptions& options) override;

 private:
  BatchNormParams norm_;
};

const LayerType& batch_norm1d_relu_softmax_type();

std::vector<ImplEntry<BatchNormReluSoftmaxProblem>>& batch_norm_relu_softmax_impls();

}  // namespace duet
