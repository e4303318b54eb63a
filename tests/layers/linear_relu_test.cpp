#include "layers/linear_relu/linear_relu.h"

#include <gtest/gtest.h>

#include "support/layer_case.h"
#include "support/network.h"

namespace duet {

std::vector<LayerCase> linear_cases();

std::vector<LayerCase> linear_relu_cases() {
  std::vector<LayerCase> cases = linear_cases();
  cases.push_back({.name = "non_finite",
                   .keys = {{"out_features", "17"}},
                   .x = {{{13, 4}}},
                   .data = Data::kNonFinite,
                   .forward_only = true});
  return cases;
}

namespace {

// The layers before the last linear one: name, type and what runs forward.
std::vector<std::string> layers_of(const std::string& head, const std::string& more = "") {
  const TestNetwork network = make_network(head +
                                               "\ndata: {dataset: synthetic_images}\nlayers:\n"
                                               "  - {type: flatten}\n"
                                               "  - {name: fc1, type: linear, out_features: 7" +
                                               more +
                                               "}\n"
                                               "  - {name: relu1, type: relu}\n"
                                               "  - {name: fc2, type: linear, out_features: 3}\n"
                                               "  - {name: loss, type: softmax_cross_entropy}\n",
                                           {{4, 1, 3, 3}}, 3);
  std::vector<std::string> names;
  for (const ResolvedLayer& layer : network.layers) {
    if (layer.passes.empty()) continue;  // flatten
    names.push_back(layer.name + ":" + std::string(layer.layer->type()) + ":" + layer.passes[0].id);
  }
  return {names.begin(), names.end() - 2};
}

using Names = std::vector<std::string>;

TEST(LinearRelu, StandsForLinearAndRelu) {
  EXPECT_EQ(layers_of("backend: cpu"), (Names{"fc1+relu1:linear_relu:cpu_blas"}));
  EXPECT_EQ(layers_of("backend: cpu", ", backend: cpu_reference"),
            (Names{"fc1+relu1:linear_relu:cpu_reference"}));
  EXPECT_EQ(layers_of("backend: cpu\nfuse: false"),
            (Names{"fc1:linear:cpu_blas", "relu1:relu:cpu_reference"}));
}

TEST(LinearRelu, HasLinearsParameters) {
  const LayerCase c = {.keys = {{"out_features", "5"}, {"init", "he_normal"}}, .x = {{{2, 3}}}};
  const auto block = make_layer("linear_relu", c), linear = make_layer("linear", c);
  ASSERT_EQ(block->parameters().size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(block->parameters()[i].name, linear->parameters()[i].name);
    EXPECT_EQ(block->parameters()[i].desc, linear->parameters()[i].desc);
    EXPECT_EQ(block->parameters()[i].init, linear->parameters()[i].init);
  }
}

}  // namespace
}  // namespace duet
