#include "layers/reorder/reorder.h"

namespace duet {

// Each in the file of its name.
ImplEntry<ReorderProblem> reorder_cpu_reference();
ImplEntry<ReorderProblem> reorder_custom_plane_tiles();
ImplEntry<ReorderProblem> reorder_custom_tiled_transpose();
ImplEntry<ReorderProblem> reorder_custom_naive();
ImplEntry<ReorderProblem> reorder_cudnn();

std::vector<ImplEntry<ReorderProblem>>& reorder_impls() {
  static std::vector<ImplEntry<ReorderProblem>> list = {
    reorder_cpu_reference(),
#if DUET_WITH_CUDA
    reorder_custom_tiled_transpose(),
    reorder_custom_plane_tiles(),
    reorder_custom_naive(),
    reorder_cudnn(),
#endif
  };
  return list;
}

namespace {

class ReorderLayer : public LayerOf<ReorderLayer, ReorderProblem> {
 public:
  explicit ReorderLayer(ConfigReader& reader)
      : LayerOf("reorder", reorder_impls()),
        to_(reader.choice("to", {"nchw", "nhwc"}) == "nhwc" ? Layout::kNHWC : Layout::kNCHW) {}

 protected:
  ReorderProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    const TensorDesc& x = inputs[0];
    if (x.shape.rank() != 4) throw ShapeError("takes N x C x H x W, not " + x.shape.to_string());
    if (x.elements() > ConfigReader::kMaxInteger) {
      throw ShapeError("takes fewer than 2^31 elements");
    }
    outputs_ = {TensorDesc{x.shape, x.dtype, to_}};
    return {.x = x, .y = outputs_[0], .dtype = x.dtype};
  }

 private:
  Layout to_;
};

}  // namespace

const LayerType& reorder_type() {
  static const LayerType type = layer_type<ReorderLayer, reorder_impls>(
      "reorder", "copies a tensor from nchw to nhwc or back");
  return type;
}

}  // namespace duet
