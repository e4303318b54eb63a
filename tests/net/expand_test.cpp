// Composites become the layers that they stand for.
#include "net/expand.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/network.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "train/run/config_changes.h"
#include "train/setup.h"

namespace duet {
namespace {

// "name: type inputs" of each layer; no inputs: the layer before it.
std::vector<std::string> expanded(const std::string& layers) {
  ConfigNode root = read_yaml("layers:\n" + layers, "test.yaml");
  ConfigErrors errors("test.yaml");
  expand_composites(root, errors);
  errors.raise_if_any();
  std::vector<std::string> lines;
  for (const ConfigNode& item : root.find("layers")->items) {
    const ConfigNode *name = item.find("name"), *inputs = item.find("inputs");
    std::string line = (name ? name->scalar : "?") + ": " + item.find("type")->scalar;
    if (inputs) {
      std::vector<std::string> names;
      for (const ConfigNode& input : inputs->items) names.push_back(input.scalar);
      line += " [" + join(names) + "]" + inputs->scalar;
    }
    lines.push_back(line);
  }
  return lines;
}

using Lines = std::vector<std::string>;

TEST(Expand, LeavesOrdinaryLayersAsTheyAre) {
  EXPECT_EQ(expanded("  - {type: relu}\n  - {name: fc, type: linear, inputs: relu1}\n"),
            (Lines{"?: relu", "fc: linear []relu1"}));
}

TEST(Expand, ResidualIsItsBranchesAndTheirSum) {
  EXPECT_EQ(expanded(R"(
  - {name: stem, type: conv2d}
  - name: block
    type: residual
    body: [{name: conv1, type: conv2d}, {type: relu}, {name: conv2, type: conv2d}]
    shortcut: [{name: downsample.0, type: conv2d}]
    activation: relu
  - {type: flatten}
)"),
            (Lines{"stem: conv2d", "block.conv1: conv2d", "block.relu1: relu",
                   "block.conv2: conv2d", "block.downsample.0: conv2d [stem]",
                   "block.add: add [block.conv2, block.downsample.0]", "block.relu2: relu",
                   "flatten1: flatten"}));
}

TEST(Expand, WithoutAShortcutTheValueItselfIsAdded) {
  EXPECT_EQ(expanded(R"(
  - {name: r, type: residual, body: [{name: a, type: tanh}], activation: {type: relu, name: last}}
)"),
            (Lines{"r.a: tanh", "r.add: add [r.a, images]", "r.last: relu"}));
}

TEST(Expand, RepeatsAreNumberedAndNumbersGoOn) {
  EXPECT_EQ(expanded(R"(
  - {name: layer1.0, type: residual, body: [{name: a, type: tanh}], shortcut: [{type: relu}]}
  - {name: layer1, type: residual, repeat: 2, body: [{name: a, type: tanh}]}
  - {name: fc, type: linear, repeat: 2}
  - {name: end, type: concat, inputs: [layer1, fc, layer1.0]}
)"),
            (Lines{"layer1.0.a: tanh", "layer1.0.relu1: relu [images]",
                   "layer1.0.add: add [layer1.0.a, layer1.0.relu1]", "layer1.1.a: tanh",
                   "layer1.1.add: add [layer1.1.a, layer1.0.add]", "layer1.2.a: tanh",
                   "layer1.2.add: add [layer1.2.a, layer1.1.add]", "fc.0: linear", "fc.1: linear",
                   "end: concat [layer1.2.add, fc.1, layer1.0.add]"}));
}

TEST(Expand, NamesAreThoseOfTheCompositeFirst) {
  EXPECT_EQ(expanded(R"(
  - {name: a, type: tanh}
  - {name: b, type: tanh}
  - name: s
    type: sequential
    inputs: [a]
    layers:
      - {name: a, type: relu}
      - {name: c, type: concat, inputs: [a, b]}
      - {name: t, type: sequential, layers: [{type: relu}, {name: d, type: concat, inputs: [c, a]}]}
)"),
            (Lines{"a: tanh", "b: tanh", "s.a: relu [a]", "s.c: concat [s.a, b]", "s.t.relu1: relu",
                   "s.t.d: concat [s.c, s.a]"}));
}

TEST(Expand, SaysWhatACompositeLacks) {
  const auto message = [](const std::string& layer) {
    return error_of<ConfigError>([&] { expanded("  - " + layer + "\n"); });
  };
  EXPECT_TRUE(has(message("{name: r, type: residual}"), "test.yaml:2:5", "layer r (residual): body",
                  "expected 'body', a list of layers"));
  EXPECT_TRUE(has(message("{name: r, type: residual, body: []}"), "expected 'body'"));
  EXPECT_TRUE(
      has(message("{name: r, type: residual, body: [{type: relu}], shortcut: {type: relu}}"),
          "shortcut: expected 'shortcut', a list of layers"));
  EXPECT_TRUE(has(message("{type: residual, body: [{type: relu}], activatoin: relu}"),
                  "layer residual1 (residual): unknown key 'activatoin'", "'activation'"));
  EXPECT_TRUE(has(message("{type: relu, repeat: 0}"), "layer relu1: repeat: expected a whole"));
  EXPECT_TRUE(has(message("{type: sequential, layers: [{type: relu}], inputs: [a, b]}"),
                  "inputs: expected the name of one layer"));
  std::string deep = "{type: relu}";
  for (int i = 0; i < 5; ++i) {
    deep = "{type: sequential, repeat: 100, layers: [" + deep + ", {type: relu}]}";
  }
  EXPECT_TRUE(has(message(deep), "repeats make more than 10000 layers", "repeat less often"));
  // Neither mistakes nor what is no layer nor long text is repeated for ever.
  for (std::string inside : {std::string("{type: residual, repeat: 1000}"), std::string("3"),
                             "{type: relu, slope: " + std::string(4000, '1') + "}"}) {
    for (int i = 0; i < 4; ++i) {
      inside = "{type: sequential, repeat: 1000, layers: [" + inside + "]}";
    }
    EXPECT_NE(message(inside), "");
  }
}

// What follows from a mistake is not told.
TEST(Expand, AnUnknownActivationIsOneMistake) {
  const std::string message = error_of<ConfigError>([] {
    make_network(
        "backend: cpu\n"
        "data: {dataset: synthetic_images, batch: 2}\n"
        "layers:\n"
        "  - {name: a, type: residual, body: [{type: relu}], activation: rleu}\n"
        "  - {name: b, type: residual, body: [{type: relu}], shortcut: [{type: tanh}]}\n"
        "  - {type: flatten}\n"
        "  - {type: softmax_cross_entropy}\n",
        {{2, 1, 6, 6}});
  });
  EXPECT_TRUE(has(message, "unknown layer type 'rleu' (did you mean 'relu'?)"));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

constexpr const char* kSmallResidual = R"(
backend: cpu_reference
data: {dataset: synthetic_images, batch: 3}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, padding: 1}
  - name: layer1
    type: residual
    repeat: 2
    body: [{name: conv1, type: conv2d, out_channels: 4, kernel: 3, padding: 1}, {type: tanh}]
    activation: tanh
  - {type: flatten}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";

TEST(Expand, ParametersHavePyTorchsNames) {
  const TestNetwork network = make_network(kSmallResidual, {{3, 1, 6, 6}});
  std::string names;
  const Weights weights(network.layers, 1, Device::kCpu);
  for (const Parameter& parameter : weights.parameters()) names += parameter.name + " ";
  EXPECT_EQ(names,
            "conv1.weight conv1.bias layer1.0.conv1.weight layer1.0.conv1.bias "
            "layer1.1.conv1.weight layer1.1.conv1.bias fc.weight fc.bias ");
}

TEST(Expand, BranchesThatDoNotFitAreNamedWithTheirSizes) {
  std::string yaml = kSmallResidual;
  yaml.replace(yaml.find("out_channels: 4, kernel: 3, padding: 1}, {type: tanh}"), 15,
               "out_channels: 5");
  EXPECT_TRUE(has(error_of<ConfigError>([&] {
                    make_network(yaml, {{3, 1, 6, 6}});
                  }),
                  "test.yaml:6:5: layer layer1.0.add (add): adds tensors of one shape",
                  "3x5x6x6 comes from layer layer1.0.tanh1, 3x4x6x6 comes from layer conv1"));
}

duet::Setup setup_of(const std::vector<std::string>& assignments) {
  return read_setup(read_yaml(kSmallResidual, "test.yaml"),
                    {.config = "test.yaml", .assignments = assignments});
}

TEST(Expand, SetFindsWhatIsWrittenAndWhatItStandsFor) {
  const duet::Setup setup = setup_of({"layers.layer1.1.conv1.kernel=1", "layers.layer1.repeat=3",
                                      "layers.layer1.1.conv1.padding=0", "layers.fc.bias=false"});
  const ConfigNode& layers = *setup.config.find("layers");
  ASSERT_EQ(layers.items.size(), 1u + 3 * 4 + 3);
  std::string kernels;
  for (const ConfigNode& layer : layers.items) {
    if (const ConfigNode* kernel = layer.find("kernel")) kernels += kernel->scalar + " ";
  }
  EXPECT_EQ(kernels, "3 3 1 3 ");
  EXPECT_TRUE(has(error_of<ConfigError>([] { setup_of({"layers.layer1.7.conv1.kernel=1"}); }),
                  "no item 'layer1.7.conv1' in the list (did you mean 'layer1.0.conv1'?)"));
  EXPECT_TRUE(has(error_of<ConfigError>([] { setup_of({"layers.layer1.kernel=1"}); }),
                  "layer layer1.0 (residual): unknown key 'kernel'"));
}

TEST(Expand, ChangesOfALayerAreKnownByItsWholeName) {
  const duet::Setup before = setup_of({}), now = setup_of({"layers.layer1.1.conv1.bias=false"});
  const auto changes = config_changes(before.config, now.config);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(to_string(changes[0]), "layers.layer1.1.conv1.bias: true -> false");
  EXPECT_TRUE(changes[0].of_results);
}

}  // namespace
}  // namespace duet
