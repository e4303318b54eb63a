// linear: fully connected layer, as torch.nn.Linear.
//
//   y[n,o] = b[o] + sum over i of x[n,i] * w[o,i]          (y = x w^T + b)
//
// Input: rank 2 (N x in_features). Images go through a flatten layer first.
// Keys: out_features (required), bias true, init default.
#pragma once

#include "layers/layer.h"

namespace duet {

struct LinearParams {
  int64_t out_features = 1;
  bool bias = true;
  Init init = Init::kDefault;

  static LinearParams read(ConfigReader& reader);
};

/// All sizes of one linear layer. Tensors, all row-major: x N,in; w out,in; b out; y N,out.
struct LinearProblem {
  int n = 1;
  int in = 1;
  int out = 1;
  bool bias = true;
  Math math = Math::kFP32;
  DType dtype = DType::kFloat32;

  /// Multiply-adds of a pass.
  int64_t products() const { return saturated_product_of({n, in, out}); }
  TensorDesc x_desc() const { return {{n, in}, dtype}; }
  TensorDesc w_desc() const { return {{out, in}, accumulator_of(dtype)}; }
  TensorDesc b_desc() const { return {{out}, accumulator_of(dtype)}; }
  TensorDesc y_desc() const { return {{n, out}, dtype}; }
  std::string to_string() const;
};

/// The shape rule alone, for layers that contain a linear layer. Throws ShapeError.
LinearProblem linear_problem(const LinearParams& params, const TensorDesc& x,
                             const LayerOptions& options);
/// weight (and bias) of a linear layer.
std::vector<ParameterSpec> linear_parameters(const LinearProblem& problem, Init init);

class LinearLayer : public LayerOf<LinearProblem> {
 public:
  explicit LinearLayer(const LinearParams& params);

  const LinearParams& params() const { return params_; }
  std::string_view type() const override { return "linear"; }
  const std::vector<Pass>& passes() const override { return three_passes(); }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<LinearLayer>(*this); }
  double flops(Pass) const override { return 2.0 * static_cast<double>(problem().products()); }

 protected:
  LinearProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;

 private:
  LinearParams params_;
};

const LayerType& linear_type();

}  // namespace duet
