// batch_norm2d and batch_norm1d: y = (x - mean) / sqrt(var + eps) * weight + bias in each channel,
// as torch.nn.BatchNorm2d (N C H W, either layout) and BatchNorm1d (N x F, a feature is a channel).
// S. Ioffe, C. Szegedy: Batch Normalization, 2015.
//
// In training mean and var are the batch's: over N, H and W, var divided by their count M = N*H*W.
// Forward then also updates the buffers (PyTorch's momentum; num_batches_tracked is not kept):
//   running_mean = (1 - momentum) * running_mean + momentum * mean
//   running_var  = (1 - momentum) * running_var  + momentum * var * M / (M - 1)
// In evaluation mean and var are running_mean and running_var, which backward takes as constants.
//
// With z = (x - mean) / sqrt(var + eps):
//   dbias = sum of dy,  dweight = sum of dy * z
//   dx = weight / sqrt(var + eps) * (dy - dbias / M - z * dweight / M)  in training,
//   dx = weight / sqrt(var + eps) * dy                                  in evaluation.
//
// Keys: eps 1e-5 (above 0), momentum 0.1 (0 to 1), affine true: without it there is neither weight
// nor bias. M must be 2 at least in training (untrainable()).
#pragma once

#include "layers/layer.h"

namespace duet {

struct BatchNormParams {
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;

  static BatchNormParams read(ConfigReader& reader);
};

/// Of both, and of the blocks with relu behind them (layers/batch_norm_relu). x, y, dx and dy have
/// one desc; parameters and buffers have a value a channel.
struct BatchNormProblem {
  TensorDesc x;
  double eps = 1e-5;
  double momentum = 0.1;
  bool affine = true;
  bool relu = false;  // y = relu of what is above; the gradient of a y of 0 is 0
  DType dtype = DType::kFloat32;

  int64_t channels() const { return x.shape[1]; }
  /// Values of a channel.
  int64_t count() const { return x.elements() / channels(); }
  TensorDesc channel_desc() const { return {{channels()}, accumulator_of(dtype)}; }

  /// In either layout memory is outer x channels x inner values.
  int64_t inner() const;
  int64_t outer() const { return count() / inner(); }

  std::string to_string() const;
};

class BatchNormLayer : public LayerOf<BatchNormProblem> {
 public:
  /// Of rank 4 (batch_norm2d) or 2 (batch_norm1d).
  BatchNormLayer(int rank, const BatchNormParams& params);

  std::string_view type() const override { return rank_ == 4 ? "batch_norm2d" : "batch_norm1d"; }
  const std::vector<Pass>& passes() const override { return two_passes(); }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<BatchNormLayer>(*this); }
  std::optional<std::string> untrainable() const override;
  bool cancels() const override { return true; }
  std::vector<std::vector<double>> sizes(Pass pass, bool training,
                                         const std::vector<std::vector<double>>& x,
                                         const std::vector<std::vector<double>>& w,
                                         const std::vector<std::vector<double>>& dy) const override;

 protected:
  BatchNormLayer(const ImplList& list, int rank, const BatchNormParams& params)
      : LayerOf(list), rank_(rank), params_(params) {}

  int rank() const { return rank_; }
  /// y before any relu, computed as the definition says.
  std::vector<double> normalised(bool training, const std::vector<std::vector<double>>& x,
                                 const std::vector<std::vector<double>>& w) const;
  BatchNormProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override;

 private:
  int rank_;
  BatchNormParams params_;
};

const LayerType& batch_norm1d_type();
const LayerType& batch_norm2d_type();

}  // namespace duet
