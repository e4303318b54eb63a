#include "layers/concat/concat.h"

namespace duet {

// Each in the file of its name.
ImplEntry<ConcatProblem> concat_cpu_reference();
ImplEntry<ConcatProblem> concat_custom_vectorized();
ImplEntry<ConcatProblem> concat_cudnn();

std::vector<ImplEntry<ConcatProblem>>& concat_impls() {
  static std::vector<ImplEntry<ConcatProblem>> list = {
    concat_cpu_reference(),
#if DUET_WITH_CUDA
    concat_custom_vectorized(),
    concat_cudnn(),
#endif
  };
  return list;
}

std::string ConcatProblem::to_string() const { return "x=" + to_text(x); }

int64_t ConcatProblem::rows() const {
  const bool pixels = y.shape.rank() == 4 && y.layout == Layout::kNHWC;
  return pixels ? y.shape[0] * y.shape[2] * y.shape[3] : y.shape[0];
}

namespace {

class ConcatLayer : public LayerOf<ConcatLayer, ConcatProblem> {
 public:
  ConcatLayer() : LayerOf("concat", concat_impls()) {}

  bool takes_many() const override { return true; }

 protected:
  ConcatProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
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
};

}  // namespace

const LayerType& concat_type() {
  static const LayerType type = layer_type<ConcatLayer, concat_impls>(
      "concat", "its inputs one behind the other along the channels");
  return type;
}

}  // namespace duet
