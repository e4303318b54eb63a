#include "layers/flatten/flatten.h"

namespace duet {

const std::vector<Pass>& FlattenLayer::passes() const {
  static const std::vector<Pass> none;
  return none;
}

void FlattenLayer::bind(const std::vector<TensorDesc>& inputs, const LayerOptions&) {
  set_inputs(inputs);
  const TensorDesc& x = inputs[0];
  const Shape& s = x.shape;
  if (s.rank() == 4) {
    if (x.layout != Layout::kNCHW) {
      throw ShapeError("takes nchw, not " + x.to_string() + "; put reorder (to: nchw) before it");
    }
    outputs_ = {TensorDesc{{s[0], s[1] * s[2] * s[3]}, x.dtype}};
  } else if (s.rank() == 2) {
    outputs_ = {x};
  } else {
    throw ShapeError("takes N x C x H x W or N x F, not " + s.to_string());
  }
}

std::string FlattenLayer::problem_text() const { return "x=" + inputs_[0].to_string(); }

std::optional<std::string> FlattenLayer::unsupported(std::string_view, Pass) const {
  throw std::logic_error("flatten is a view: it has no implementations");
}

std::unique_ptr<Implementation> FlattenLayer::make(std::string_view, Context&) const {
  throw std::logic_error("flatten is a view: it has no implementations");
}

const LayerType& flatten_type() {
  static const LayerType type = {
      "flatten", "N x C x H x W as N x (C*H*W), without a copy",
      [](ConfigReader&) -> std::unique_ptr<Layer> { return std::make_unique<FlattenLayer>(); },
      [] { return std::vector<ImplInfo>{}; }};
  return type;
}

}  // namespace duet
