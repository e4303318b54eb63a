// layer_norm: y = (x - mean) / sqrt(var + eps) * weight + bias, as torch.nn.LayerNorm, with mean and
// var of each row: the values along the last axis, or along the last few. var is divided by their
// count C. J. Ba, J. Kiros, G. Hinton: Layer Normalization, 2016.
//
// With z = (x - mean) / sqrt(var + eps) and g = dy * weight, sums over a row:
//   dx = (g - sum of g / C - z * sum of g * z / C) / sqrt(var + eps)
// and sums over all rows, for each place in a row:
//   dbias = sum of dy,  dweight = sum of dy * z
//
// Keys: axes 1 (the last so many are normalised; PyTorch's normalized_shape is their sizes), eps
// 1e-5 (above 0), affine true: without it there is neither weight nor bias.
#pragma once

#include "layers/layer.h"

namespace duet {

struct LayerNormProblem {
  TensorDesc x;  // y, dx, dy have the same
  int axes = 1;
  double eps = 1e-5;
  bool affine = true;
  DType dtype = DType::kFloat32;

  int64_t columns() const;
  int64_t rows() const { return x.elements() / columns(); }
  /// In memory, of value `column` of a row.
  int64_t offset(int64_t row, int64_t column) const;
  std::string to_string() const;
};

class LayerNormLayer : public LayerOf<LayerNormLayer, LayerNormProblem> {
 public:
  explicit LayerNormLayer(ConfigReader& reader);

  bool may_have_parameters() const override { return true; }
  bool change_option(size_t number) override {
    if (number == 0) eps_ *= 100;  // less of it would not show
    if (number == 1) affine_ = !affine_;
    if (number == 2) axes_ = axes_ == 1 ? 2 : axes_ - 1;
    return number < 3;
  }
  SavedTensors saved(Pass) const override { return {.x = true}; }
  bool cancels() const override { return true; }
  std::vector<std::vector<double>> sizes(Pass pass, bool training,
                                         const std::vector<std::vector<double>>& x,
                                         const std::vector<std::vector<double>>& w,
                                         const std::vector<std::vector<double>>& dy) const override;

 protected:
  LayerNormProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override;

 private:
  int axes_;
  double eps_;
  bool affine_;
};

const LayerType& layer_norm_type();

/// Weight and bias, and their gradients, are falsy without affine.
class LayerNormImpl : public ImplementationOf<LayerNormProblem> {
 public:
  using ImplementationOf::ImplementationOf;

  virtual void forward(const Run& run, const Tensor& x, const Tensor& weight, const Tensor& bias,
                       const Tensor& y, const Tensor& state) = 0;
  /// dx, or dweight and dbias, are falsy where nobody needs them; one is not.
  virtual void backward(const Run& run, const Tensor& x, const Tensor& weight, const Tensor& dy,
                        const Tensor& state, const Tensor& dx, const Tensor& dweight,
                        const Tensor& dbias) = 0;

  SavedTensors reads(Pass) const final { return {.x = true}; }
  void run(Pass pass, const Run& run, const LayerTensors& t) final {
    const bool affine = problem_.affine;
    const Tensor weight = affine ? t.w[0] : Tensor{};
    if (pass == Pass::kForward) {
      forward(run, t.x[0], weight, affine ? t.w[1] : Tensor{}, t.y[0], t.state);
    } else if (t.dx[0] || affine) {
      backward(run, t.x[0], weight, t.dy[0], t.state, t.dx[0], affine ? t.dw[0] : Tensor{},
               affine ? t.dw[1] : Tensor{});
    }
  }
};

std::vector<ImplEntry<LayerNormProblem>>& layer_norm_impls();

}  // namespace duet
