// concat: its inputs one behind the other along the channels (axis 1), as torch.cat(x, 1): N x C x
// H x W or N x F tensors of one layout, which differ in axis 1 alone. Backward cuts dy into the
// parts of each. No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

struct ConcatProblem {
  std::vector<TensorDesc> x;  // dx have the same
  TensorDesc y;               // dy has the same
  DType dtype = DType::kFloat32;

  std::string to_string() const;

  /// In memory y is rows() rows, each of a piece of every input: an image, or a pixel in NHWC.
  int64_t rows() const;
  /// Elements of a row of a tensor of these.
  int64_t width(const TensorDesc& desc) const { return desc.elements() / rows(); }
};

class ConcatLayer : public LayerOf<ConcatProblem> {
 public:
  ConcatLayer();

  std::string_view type() const override { return "concat"; }
  const std::vector<Pass>& passes() const override { return two_passes(); }
  bool takes_many() const override { return true; }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<ConcatLayer>(*this); }

 protected:
  ConcatProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override;
};

const LayerType& concat_type();

}  // namespace duet
