#include "layers/add/add.h"

#include <cmath>

#include "layers/add/add_impls.h"

namespace duet {
namespace {

constexpr int64_t kMostOutputs = 64;

// Of the size of what is summed: above what rounding a sum of many inputs makes.
constexpr double kTie = 1e-4;

}  // namespace

std::string AddProblem::to_string() const {
  const std::string text = "x=" + to_text(std::vector(static_cast<size_t>(inputs), x));
  return outputs == 1 ? text : text + " outputs=" + std::to_string(outputs);
}

AddLayer::AddLayer() : LayerOf(add_impls()) {}

AddProblem AddLayer::infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) {
  if (inputs.size() < 2) throw ShapeError("takes at least two inputs; name them with 'inputs'");
  for (const TensorDesc& input : inputs) {
    if (input == inputs[0]) continue;
    throw ShapeError("adds tensors of one shape and layout, not " + inputs[0].to_string() +
                     " and " + input.to_string());
  }
  outputs_ = {inputs[0]};
  return {.x = inputs[0], .inputs = static_cast<int64_t>(inputs.size()), .dtype = inputs[0].dtype};
}

SplitLayer::SplitLayer(int64_t outputs) : LayerOf(add_impls()), count_(outputs) {}

AddProblem SplitLayer::infer(const std::vector<TensorDesc>& inputs, const LayerOptions&) {
  outputs_.assign(static_cast<size_t>(count_), inputs[0]);
  return {.x = inputs[0], .outputs = count_, .dtype = inputs[0].dtype};
}

AddReluLayer::AddReluLayer(int64_t outputs) : count_(outputs) {}

AddProblem AddReluLayer::infer(const std::vector<TensorDesc>& inputs, const LayerOptions& options) {
  AddProblem problem = AddLayer::infer(inputs, options);
  problem.outputs = count_;
  problem.relu = true;
  outputs_.assign(static_cast<size_t>(count_), inputs[0]);
  return problem;
}

void AddReluLayer::settle(const std::vector<std::vector<double>>& x,
                          const std::vector<std::vector<double>>&,
                          std::vector<std::vector<double>>& dy) const {
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

const LayerType& add_type() {
  static const LayerType type = {
      "add", "the sum of its inputs",
      [](ConfigReader&) -> std::unique_ptr<Layer> { return std::make_unique<AddLayer>(); },
      [] { return AddLayer::infos(add_impls()); }};
  return type;
}

const LayerType& add_relu_type() {
  static const LayerType type = {
      .name = "add_relu",
      .summary = "add and relu in one, for several readers",
      .make = [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        return std::make_unique<AddReluLayer>(reader.integer("outputs", 1, 1, kMostOutputs));
      },
      .implementations = [] { return AddReluLayer::infos(add_impls()); },
      .replaces = {{{"add"}, {"relu"}}}};
  return type;
}

const LayerType& split_type() {
  static const LayerType type = {
      "split", "hands its input to several layers and sums their gradients",
      [](ConfigReader& reader) -> std::unique_ptr<Layer> {
        return std::make_unique<SplitLayer>(reader.integer("outputs", 2, 2, kMostOutputs));
      },
      [] { return SplitLayer::infos(add_impls()); }};
  return type;
}

}  // namespace duet
