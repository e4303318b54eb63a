#include "layers/flatten/flatten.h"

namespace duet {
namespace {

struct FlattenProblem {
  TensorDesc x;
  DType dtype = DType::kFloat32;

  std::string to_string() const { return "x=" + x.to_string(); }
};

std::vector<ImplEntry<FlattenProblem>>& flatten_impls() {
  static std::vector<ImplEntry<FlattenProblem>> none;
  return none;
}
const std::vector<Pass>& no_passes() {
  static const std::vector<Pass> none;
  return none;
}

class FlattenLayer : public LayerOf<FlattenLayer, FlattenProblem> {
 public:
  FlattenLayer() : LayerOf("flatten", flatten_impls(), no_passes()) {}

  bool is_view(Pass) const override { return true; }

 protected:
  FlattenProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
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
    return {x, x.dtype};
  }
};

}  // namespace

const LayerType& flatten_type() {
  static const LayerType type = layer_type<FlattenLayer, flatten_impls>(
      "flatten", "N x C x H x W as N x (C*H*W), without a copy");
  return type;
}

}  // namespace duet
