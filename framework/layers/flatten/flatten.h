// flatten: N x C x H x W becomes N x (C*H*W), as torch.nn.Flatten: the same memory under another
// shape, so there is nothing to run and nothing to choose. N x F passes through. The input must be
// stored NCHW, because feature f is c*H*W + h*W + w. No keys.
#pragma once

#include "layers/layer.h"

namespace duet {

class FlattenLayer : public Layer {
 public:
  std::string_view type() const override { return "flatten"; }
  const std::vector<Pass>& passes() const override;
  std::unique_ptr<Layer> clone() const override { return std::make_unique<FlattenLayer>(*this); }
  bool is_view(Pass) const override { return true; }
  void bind(const std::vector<TensorDesc>& inputs, const LayerOptions& options) override;
  std::string problem_text() const override;

  std::vector<ImplInfo> implementations() const override { return {}; }
  std::optional<std::string> unsupported(std::string_view id, Pass pass) const override;
  std::unique_ptr<Implementation> make(std::string_view id, Context& context) const override;
};

const LayerType& flatten_type();

}  // namespace duet
