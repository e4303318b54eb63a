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
  /// As Layer::change_option().
  bool change_option(size_t number);
};

/// All sizes of one linear layer. Tensors, all row-major: x N,in; w out,in; b out; y N,out.
struct LinearProblem {
  int n = 1;
  int in = 1;
  int out = 1;
  bool bias = true;
  bool relu = false;  // of linear_relu: forward writes relu(y)
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

class LinearLayer : public LayerOf<LinearLayer, LinearProblem> {
 public:
  explicit LinearLayer(ConfigReader& reader);

  double flops(Pass) const override { return 2.0 * static_cast<double>(problem().products()); }
  bool change_option(size_t number) override { return params_.change_option(number); }

 protected:
  LinearProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;

 private:
  LinearParams params_;
};

const LayerType& linear_type();

/// forward: y = x w^T + b; backward_data: dx = dy w; backward_filter: dw = dy^T x, db[o] = sum over
/// n of dy[n,o].
using LinearImpl = WeightedImpl<LinearProblem>;

/// Up to here a warp or more an output is faster than any tile (64x256 -> 10 on an H200: 1.8 us for
/// 2.7), and tensor cores have too little to do.
inline bool linear_is_small(const LinearProblem& problem) {
  return int64_t{problem.n} * problem.out * problem.in <= 2000000;
}

/// `unsupported` of the kernels that lay tiles of 32 rows or more over the output.
std::optional<std::string> linear_tiles_unsupported(const LinearProblem& problem, Pass pass);

ImplEntry<LinearProblem> linear_cpu_reference();

/// The reference in double on a GPU; in no list (layers/gpu_reference.h).
std::unique_ptr<Implementation> make_linear_gpu_reference(const LinearProblem& problem);

std::vector<ImplEntry<LinearProblem>>& linear_impls();

}  // namespace duet
