#include "layers/add/add.h"

#include <cmath>

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

std::string AddProblem::to_string() const {
  const std::string text = "x=" + to_text(std::vector(static_cast<size_t>(inputs), x));
  return outputs == 1 ? text : text + " outputs=" + std::to_string(outputs);
}

namespace {

// Of the size of what is summed: above what rounding a sum of many inputs makes.
constexpr double kTie = 1e-4;

AddProblem sum_of(const std::vector<TensorDesc>& inputs) {
  if (inputs.size() < 2) throw ShapeError("takes at least two inputs; name them with 'inputs'");
  for (const TensorDesc& input : inputs) {
    if (input == inputs[0]) continue;
    throw ShapeError("adds tensors of one shape and layout, not " + inputs[0].to_string() +
                     " and " + input.to_string());
  }
  return {.x = inputs[0], .inputs = std::ssize(inputs), .dtype = inputs[0].dtype};
}

class AddLayer : public LayerOf<AddLayer, AddProblem> {
 public:
  AddLayer() : LayerOf("add", add_impls()) {}

  bool takes_many() const override { return true; }
  bool is_view(Pass pass) const override { return pass != Pass::kForward; }

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    outputs_ = {inputs[0]};
    return sum_of(inputs);
  }
};

class SplitLayer : public LayerOf<SplitLayer, AddProblem> {
 public:
  explicit SplitLayer(ConfigReader& reader)
      : LayerOf("split", add_impls()), count_(reader.integer("outputs", 2, 2, kMostReaders)) {}

  bool is_view(Pass pass) const override { return pass == Pass::kForward; }

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    outputs_.assign(static_cast<size_t>(count_), inputs[0]);
    return {.x = inputs[0], .outputs = count_, .dtype = inputs[0].dtype};
  }

 private:
  int64_t count_;
};

class AddReluLayer : public LayerOf<AddReluLayer, AddProblem> {
 public:
  explicit AddReluLayer(ConfigReader& reader)
      : LayerOf("add_relu", add_impls()), count_(reader.integer("outputs", 1, 1, kMostReaders)) {}

  bool takes_many() const override { return true; }
  bool is_sum() const override { return true; }
  SavedTensors saved(Pass) const override { return {.y = true}; }
  /// Where rounding decides whether the sum is above 0.
  void settle(const std::vector<std::vector<double>>& x, const std::vector<std::vector<double>>&,
              std::vector<std::vector<double>>& dy) const override {
    for (size_t i = 0; i < x[0].size(); ++i) {
      double sum = 0, size = 0;
      for (const std::vector<double>& each : x) {
        sum += each[i];
        size += std::abs(each[i]);
      }
      if (std::abs(sum) >= kTie * size) continue;
      for (std::vector<double>& each : dy) each[i] = 0;
    }
  }

 protected:
  AddProblem infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) override {
    AddProblem problem = sum_of(inputs);
    problem.outputs = count_;
    problem.relu = true;
    outputs_.assign(static_cast<size_t>(count_), inputs[0]);
    return problem;
  }

 private:
  int64_t count_;
};

}  // namespace

const LayerType& add_type() {
  static const LayerType type = layer_type<AddLayer, add_impls>("add", "the sum of its inputs");
  return type;
}

const LayerType& add_relu_type() {
  static const LayerType type = layer_type<AddReluLayer, add_impls>(
      "add_relu", "add and relu in one, for several readers", {}, {{{"add"}, {"relu"}}});
  return type;
}

const LayerType& split_type() {
  static const LayerType type = layer_type<SplitLayer, add_impls>(
      "split", "hands its input to several layers and sums their gradients");
  return type;
}

}  // namespace duet
