#include "layers/add/add.h"

namespace duet {

// Each in the file of its name.
ImplEntry<AddProblem> add_cpu_reference();
ImplEntry<AddProblem> add_custom_vectorized();
ImplEntry<AddProblem> add_cudnn();

std::vector<ImplEntry<AddProblem>>& add_impls() {
  static std::vector<ImplEntry<AddProblem>> list = {
    add_cpu_reference(),
#if DUET_WITH_CUDA
    add_custom_vectorized(),
    add_cudnn(),
#endif
  };
  return list;
}

namespace {

class AddLayer : public LayerOf<AddLayer, AddProblem> {
 public:
  AddLayer() : LayerOf("add", add_impls()) {}

  bool takes_many() const override { return true; }
  bool is_view(Pass pass) const override { return pass != Pass::kForward; }

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    if (inputs.size() < 2) throw ShapeError("takes at least two inputs; name them with 'inputs'");
    for (const TensorDesc& input : inputs) {
      if (input == inputs[0]) continue;
      throw ShapeError("adds tensors of one shape and layout, not " + inputs[0].to_string() +
                       " and " + input.to_string());
    }
    outputs_ = {inputs[0]};
    return {.x = inputs[0], .inputs = std::ssize(inputs), .dtype = inputs[0].dtype};
  }
};

class SplitLayer : public LayerOf<SplitLayer, AddProblem> {
 public:
  explicit SplitLayer(ConfigReader& reader)
      : LayerOf("split", add_impls()), count_(reader.integer("outputs", 2, 2, kMostOutputs)) {}

  bool is_view(Pass pass) const override { return pass == Pass::kForward; }

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    outputs_.assign(static_cast<size_t>(count_), inputs[0]);
    return {.x = inputs[0], .outputs = count_, .dtype = inputs[0].dtype};
  }

 private:
  static constexpr int64_t kMostOutputs = 64;
  int64_t count_;
};

}  // namespace

std::string AddProblem::to_string() const {
  const std::string text = "x=" + to_text(std::vector(static_cast<size_t>(inputs), x));
  return outputs == 1 ? text : text + " outputs=" + std::to_string(outputs);
}

const LayerType& add_type() {
  static const LayerType type = layer_type<AddLayer, add_impls>("add", "the sum of its inputs");
  return type;
}

const LayerType& split_type() {
  static const LayerType type = layer_type<SplitLayer, add_impls>(
      "split", "hands its input to several layers and sums their gradients");
  return type;
}

}  // namespace duet
