// Mistakes in a configuration: each is told, all at once, with its place.
#include "net/spec.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "support/network.h"
#include "support/text.h"

namespace duet {
namespace {

// The message for `layers` (YAML lines) under a valid head; images are 1x28x28, batch 4.
std::string message_of(const std::string& layers, const std::string& head = "backend: cpu\n",
                       int* code = nullptr) {
  try {
    make_network(head + "data: {dataset: synthetic_images, batch: 4}\nlayers:\n" + layers,
                 {{4, 1, 28, 28}});
  } catch (const Error& e) {
    if (code) *code = e.exit_code();
    return e.what();
  }
  return "";
}

constexpr const char* kTail = R"(  - {type: flatten}
  - {name: fc, type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)";

void expect_message(const std::string& layers, const std::vector<std::string>& parts,
                    const std::string& head = "backend: cpu\n", int expected_code = kExitUsage) {
  int code = 0;
  const std::string message = message_of(layers + kTail, head, &code);
  EXPECT_TRUE(has(message, parts));
  EXPECT_EQ(code, expected_code) << message;
}

TEST(Spec, ValidConfigurationHasNoMessage) { EXPECT_EQ(message_of(kTail), ""); }

TEST(Spec, UnknownKeysNameTheNearest) {
  expect_message("  - {type: conv2d, out_channels: 4, kernal: 3}\n",
                 {"test.yaml:4:", "unknown key 'kernal'", "did you mean 'kernel'",
                  "required key 'kernel' is missing"});
}

TEST(Spec, DeterministicIsNoKeyAnyMore) {
  expect_message("", {"test.yaml:2:1", "deterministic", "every run repeats", "delete it"},
                 "backend: cpu\ndeterministic: false\n");
  const std::string known = message_of(kTail, "backend: cpu\nunheard_of: 1\n");
  EXPECT_TRUE(has(known, "known keys: name, backend", "fuse, graph, seed"));
}

TEST(Spec, FuseUpdateIsNoKeyAnyMoreButOldRunsAreRead) {
  expect_message("", {"test.yaml:2:1", "fuse_update", "never faster", "delete it"},
                 "backend: cpu\nfuse_update: true\n");
  EXPECT_EQ(message_of(kTail, "backend: cpu\nfuse_update: false\n"), "");
  for (const char* value : {"true", "false"}) {
    const ConfigNode saved = read_yaml("fuse_update: " + std::string(value), "config.yaml");
    EXPECT_FALSE(from_checkpoint(saved).find("fuse_update"));
  }
}

TEST(Spec, CheckpointsOfARemovedImplementationAreRead) {
  const std::string saved = write_yaml(from_checkpoint(
      read_yaml("name: cudnn_own_masks\nbackend: cudnn_own_masks\nlayers:\n"
                "  - {type: dropout, backend: cudnn_own_masks}\n  - {type: relu, backend: cudnn}\n",
                "config.yaml")));
  EXPECT_EQ(
      saved,
      "name: cudnn_own_masks\nlayers:\n  - {type: dropout}\n  - {type: relu, backend: cudnn}\n");
}

TEST(Spec, AllMistakesAreToldAtOnce) {
  expect_message(
      "  - {type: conv3d}\n  - {type: relu, slop: 1}\n  - {type: conv2d, out_channels: -2, kernel: "
      "x}\n",
      {"test.yaml:5:12", "unknown layer type 'conv3d' (did you mean 'conv2d'?)", "known key",
       "out_channels: expected a whole number of at least 1, found '-2'",
       "kernel: expected a whole number of at least 1, found 'x'", "bach"},
      "backend: cpu\nbach: 3\n");
}

TEST(Spec, UnknownImplementationsAreListed) {
  expect_message(
      "  - {type: relu, backend: cpu_fast}\n",
      {"layer relu1 (relu): backend: unknown implementation 'cpu_fast'", "cpu_reference"});
  if (!built_with_cuda()) {  // it may be known elsewhere
    expect_message("  - {type: relu, backend: custom_fast}\n",
                   {"layer relu1 (relu): backend: 'custom_fast'", "no CUDA"}, "backend: cpu\n",
                   kExitUnsupported);
  }
  expect_message("", {"unknown implementation 'cpuu'", "did you mean 'cpu'"}, "backend: cpuu\n");
}

TEST(Spec, ShapesThatDoNotFitNameBothLayers) {
  expect_message(
      "  - {name: first, type: conv2d, out_channels: 4, kernel: 27}\n"
      "  - {name: second, type: conv2d, out_channels: 4, kernel: 5}\n",
      {"layer second (conv2d)", "comes from layer first", "4x4x2x2"});
  expect_message("  - {type: conv2d, out_channels: 4, kernel: 29}\n",
                 {"layer conv2d1", "comes from the data", "4x1x28x28"});
  expect_message("  - {type: linear, out_features: 4}\n", {"layer linear1", "flatten"});
}

// Of layers that are all there are.
void expect_alone(const std::string& layers, const std::vector<std::string>& parts) {
  EXPECT_TRUE(has(message_of(layers), parts)) << layers;
}

TEST(Spec, LossesAreThereAndReadByNobody) {
  EXPECT_TRUE(has(message_of("  - {type: flatten}\n"), "the network has no loss"));
  const std::string head = "  - {type: flatten}\n  - {name: fc, type: linear, out_features: 10}\n";
  const std::string loss = "  - {name: early, type: softmax_cross_entropy}\n";
  expect_alone(head + loss + "  - {type: softmax_cross_entropy, inputs: early}\n",
               {"reads early, a loss"});
  expect_alone(head + loss + "  - {type: relu}\n", {"layer relu1: nobody reads its output"});
  expect_alone(head + "  - {type: relu, weight: 2}\n" + loss, {"unknown key 'weight'"});
  for (const char* weight : {"0", "-1", "nan", "1e30", "much"}) {
    expect_alone(head + "  - {type: mse, weight: " + weight + "}\n", {"weight"});
  }
  std::string many = head;
  for (int i = 0; i < 9; ++i) many += "  - {type: mse}\n";
  expect_alone(many, {"9 losses; at most 8"});
}

TEST(Spec, FieldsAreWhatTheDataSetHas) {
  const std::string head = "  - {type: flatten}\n  - {name: fc, type: linear, out_features: 10}\n";
  expect_alone(head + "  - {type: mse, inputs: [fc, lables]}\n",
               {"there is no layer 'lables'", "did you mean 'labels'"});
  expect_alone(head + "  - {type: mse, inputs: [fc, images]}\n",
               {"layer mse1 (mse): reads the field images in place of 'labels', which it cannot be",
                "the data set has images, labels (classes), rows"});
  expect_alone(head + "  - {type: mse, inputs: [fc, labels, labels]}\n",
               {"takes 2 inputs (the output of a layer, labels), not 3"});
  expect_alone("  - {name: labels, type: flatten}\n  - {type: mse}\n",
               {"'labels' is what the labels of the batch are called"});
}

TEST(Spec, LabelsMustFitTheLastLayer) {
  const std::string message = message_of(
      "  - {type: flatten}\n  - {name: fc, type: linear, out_features: 9}\n"
      "  - {type: softmax_cross_entropy}\n");
  EXPECT_TRUE(has(message, "10 classes", "fc has only 9 outputs"));
}

TEST(Spec, OneNetworkRunsOnOneDevice) {
  expect_message("  - {type: conv2d, out_channels: 2, kernel: 3, backend: custom}\n",
                 {"layer conv2d1", "'custom' runs on the GPU", "one device"});
}

TEST(Spec, PerPassChoiceIsForLayersWithWeights) {
  expect_message("  - {type: relu, backend: {forward: cpu_reference}}\n",
                 {"runs all its passes by one implementation"});
  expect_message("  - {type: conv2d, out_channels: 2, kernel: 3, backend: {forwards: cpu}}\n",
                 {"unknown key 'forwards'", "did you mean 'forward'"});
}

TEST(Spec, WhatDoesNotStoreBf16IsRefusedWithWhatDoes) {
  expect_message("  - {type: conv2d, out_channels: 2, kernel: 3, backend: cpu_blas}\n",
                 {"layer conv2d1", "'cpu_blas' cannot run forward",
                  "stores float32 only, and 'math' is bf16", "these can: cpu_reference"},
                 "backend: cpu\nmath: bf16\n", kExitUnsupported);
  if (!built_with_cuda()) return;
  expect_message("  - {type: conv2d, out_channels: 2, kernel: 3, backend: custom_winograd}\n",
                 {"layer conv2d1", "'custom_winograd' cannot run forward",
                  "stores float32 only, and 'math' is bf16", "these can: ", "custom_naive"},
                 "backend: custom\nmath: bf16\n", kExitUnsupported);
  expect_message("  - {name: sigmoid, type: sigmoid}\n",
                 {"layer sigmoid", "no 'cudnn' implementation can run forward",
                  "takes the gradient from y, of which bf16 keeps too few digits near 1"},
                 "backend: cudnn\nmath: bf16\n", kExitUnsupported);
}

TEST(Spec, MathIsOneOfThree) {
  expect_message("", {"math", "fp32", "tf32", "bf16"}, "backend: cpu\nmath: fp16\n");
}

TEST(Spec, RefusalsSayWhyAndExitWithUnsupported) {
  if (!built_with_cuda()) {
    expect_message("", {"backend 'custom'", "this build has no CUDA"}, "backend: custom\n",
                   kExitUnsupported);
    return;
  }
  expect_message("  - {type: conv2d, out_channels: 2, kernel: 3, backend: custom_mma}\n",
                 {"layer conv2d1", "'custom_mma' cannot run forward", "'math' is fp32",
                  "these can: custom_direct, "},
                 "backend: cudnn\n", kExitUnsupported);
}

TEST(Spec, EmptyAndBrokenFiles) {
  EXPECT_THROW(read_yaml("", "a.yaml"), ConfigError);
  EXPECT_THROW(read_yaml("a: [1, 2", "a.yaml"), ConfigError);
  EXPECT_THROW(read_yaml("- 1\n- 2\n", "a.yaml"), ConfigError);
  EXPECT_THROW(read_yaml("a: 1\na: 2\n", "a.yaml"), ConfigError);
  EXPECT_THROW(read_yaml_file("/nowhere/a.yaml"), ConfigError);
  EXPECT_THROW(read_yaml_file("/tmp"), ConfigError);
}

TEST(Spec, SetChangesOneKey) {
  ConfigNode root = read_yaml("a: {b: 1}\nlayers:\n  - {name: x, k: 1}\n  - {name: y}\n", "a.yaml");
  set_value(root, "a.b=2");
  set_value(root, "layers.y.k=[3, 4]");
  set_value(root, "layers.0.k=5");
  set_value(root, "new.key=text");
  EXPECT_EQ(root.find("a")->find("b")->scalar, "2");
  EXPECT_EQ(root.find("layers")->items[1].find("k")->items[1].scalar, "4");
  EXPECT_EQ(root.find("layers")->items[0].find("k")->scalar, "5");
  EXPECT_EQ(root.find("new")->find("key")->scalar, "text");
  EXPECT_THROW(set_value(root, "layers.z.k=1"), ConfigError);
  EXPECT_THROW(set_value(root, "a.b.c=1"), ConfigError);
  EXPECT_THROW(set_value(root, "novalue"), ConfigError);
}

TEST(Spec, ResolvedConfigurationReadsBackTheSame) {
  ConfigNode root = read_yaml(
      std::string("backend: cpu\ndata: {dataset: synthetic_images}\nlayers:\n") + kTail, "a.yaml");
  ConfigErrors errors("a.yaml");
  read_net_spec(root, errors);
  const std::string text = write_yaml(root);
  EXPECT_TRUE(has(text, "graph: true"));
  EXPECT_EQ(write_yaml(read_yaml(text, "b.yaml")), text);
}

TEST(Spec, StepsInAGraph) {
  const auto steps_of = [](const std::string& keys) {
    ConfigNode root = read_yaml(
        keys + "backend: cpu\ndata: {dataset: synthetic_images}\nlayers:\n" + kTail, "a.yaml");
    ConfigErrors errors("a.yaml");
    const int64_t steps = read_net_spec(root, errors).graph_steps;
    errors.raise_if_any();
    return steps;
  };
  EXPECT_EQ(steps_of(""), 8);
  EXPECT_EQ(steps_of("graph_steps: 1\n"), 1);
  EXPECT_THROW(steps_of("graph_steps: 0\n"), ConfigError);
  EXPECT_THROW(steps_of("graph_steps: 65\n"), ConfigError);
}

}  // namespace
}  // namespace duet
