// reorder: copies a rank-4 tensor into another layout; shape and values stay. Backward copies the
// gradient back. A network inserts it where neighbouring layers want different layouts.
// Keys: to (required; nchw or nhwc).
#pragma once

#include "layers/layer.h"

namespace duet {

struct ReorderProblem {
  TensorDesc x;  // dx has the same
  TensorDesc y;  // dy has the same
  DType dtype = DType::kFloat32;

  std::string to_string() const {
    return "x=" + x.to_string() + " to=" + std::string(duet::to_string(y.layout));
  }
};

class ReorderLayer : public LayerOf<ReorderProblem> {
 public:
  explicit ReorderLayer(Layout to);

  std::string_view type() const override { return "reorder"; }
  const std::vector<Pass>& passes() const override { return two_passes(); }
  std::unique_ptr<Layer> clone() const override { return std::make_unique<ReorderLayer>(*this); }

 protected:
  ReorderProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;

 private:
  Layout to_;
};

const LayerType& reorder_type();

}  // namespace duet
