#include "layers/reorder/reorder.h"

#include "layers/reorder/reorder_impls.h"

namespace duet {

ReorderLayer::ReorderLayer(Layout to) : LayerOf(reorder_impls()), to_(to) {}

ReorderProblem ReorderLayer::infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) {
  const TensorDesc& x = inputs[0];
  if (x.shape.rank() != 4) throw ShapeError("takes N x C x H x W, not " + x.shape.to_string());
  if (x.elements() > ConfigReader::kMaxInteger) throw ShapeError("takes fewer than 2^31 elements");
  outputs_ = {TensorDesc{x.shape, x.dtype, to_}};
  return {.x = x, .y = outputs_[0], .dtype = x.dtype};
}

const LayerType& reorder_type() {
  static const LayerType type = {
      "reorder", "copies a tensor from nchw to nhwc or back",
      [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        const bool nhwc = reader.choice("to", {"nchw", "nhwc"}) == "nhwc";
        return std::make_unique<ReorderLayer>(nhwc ? Layout::kNHWC : Layout::kNCHW);
      },
      [] { return ReorderLayer::infos(reorder_impls()); }};
  return type;
}

}  // namespace duet
