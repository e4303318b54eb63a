#include "layers/concat/concat.h"

#include "layers/concat/concat_impls.h"

namespace duet {

std::string ConcatProblem::to_string() const { return "x=" + to_text(x); }

int64_t ConcatProblem::rows() const {
  const bool pixels = y.shape.rank() == 4 && y.layout == Layout::kNHWC;
  return pixels ? y.shape[0] * y.shape[2] * y.shape[3] : y.shape[0];
}

ConcatLayer::ConcatLayer() : LayerOf(concat_impls()) {}

ConcatProblem ConcatLayer::infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) {
  if (inputs.size() < 2) throw ShapeError("takes at least two inputs; name them with 'inputs'");
  TensorDesc y = inputs[0];
  if (y.shape.rank() != 2 && y.shape.rank() != 4) {
    throw ShapeError("takes N x C x H x W or N x F, not " + y.shape.to_string());
  }
  int64_t channels = 0;
  for (const TensorDesc& input : inputs) {
    const bool fits = input.shape.rank() == y.shape.rank();
    if (fits) channels += input.shape[1];
    TensorDesc alike = input;
    if (fits) alike.shape = alike.shape.with(1, y.shape[1]);
    if (alike == inputs[0]) continue;
    throw ShapeError("joins tensors that differ in their channels alone, not " +
                     inputs[0].to_string() + " and " + input.to_string());
  }
  y.shape = y.shape.with(1, channels);
  outputs_ = {y};
  return {inputs, y, y.dtype};
}

const LayerType& concat_type() {
  static const LayerType type = {
      "concat", "its inputs one behind the other along the channels",
      [](ConfigReader&) -> std::unique_ptr<Layer> { return std::make_unique<ConcatLayer>(); },
      [] { return ConcatLayer::infos(concat_impls()); }};
  return type;
}

}  // namespace duet
