// Losses of two tensors and metrics in a network: what they read, and what passes no gradient back.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "core/field.h"
#include "device/device.h"
#include "support/network.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr const char* kHead =
    "backend: cpu_reference\ndata: {dataset: synthetic_images, batch: 3}\n";

// Images, targets of their shape, and rows, the last of which pads.
TestNetwork network_of(const std::string& layers, bool training = true) {
  TestNetwork network;
  network.config = read_yaml(kHead + ("layers:\n" + layers), "test.yaml");
  ConfigErrors errors("test.yaml");
  network.spec = read_net_spec(network.config, errors);
  const TensorDesc images{{3, 1, 6, 5}};
  const std::vector<BatchField> fields = {
      {std::string(kImagesField), FieldKind::kImages, images},
      {std::string(kTargetsField), FieldKind::kImages, images},
      {std::string(kRowsField), FieldKind::kRows, rows_desc(3)}};
  if (errors.empty()) network.layers = resolve(network.spec, fields, errors, training);
  errors.raise_if_any();
  return network;
}

std::string mistake_of(const std::string& layers) {
  return error_of<ConfigError>([&] { network_of(layers); });
}

// A network with its memory, and a batch of numbers.
struct RunningNet {
  explicit RunningNet(TestNetwork made)
      : network(std::move(made)),
        context(Device::kCpu),
        weights(network.layers, 1, Device::kCpu),
        net(network.layers, weights, context) {
    fill(weights.trained(), 0.2);
    fill(net.field(kImagesField), 0.37);
    fill(net.field(kTargetsField), 0.61);
    const int32_t rows[] = {0, 1, -1};
    std::copy(std::begin(rows), std::end(rows), net.field(kRowsField).data<int32_t>());
    const uint64_t step = 0;
    net.forward(&step);
    net.backward(&step);
  }
  static void fill(const Tensor& tensor, double factor) {
    for (int64_t i = 0; tensor && i < tensor.elements(); ++i) {  // none reads some fields
      tensor.data<float>()[i] = static_cast<float>(std::sin(factor * static_cast<double>(i)));
    }
  }
  std::vector<float> gradients() const {
    const Tensor all = net.gradients();
    return {all.data<float>(), all.data<float>() + all.elements()};
  }
  const Net::Node& node(const std::string& name) const {
    return *std::find_if(net.nodes().begin(), net.nodes().end(),
                         [&](const Net::Node& node) { return node.name == name; });
  }

  TestNetwork network;
  Context context;
  Weights weights;
  Net net;
};

constexpr const char* kConv =
    "  - {name: conv, type: conv2d, out_channels: 1, kernel: 3, padding: 1}\n";
constexpr const char* kPairLosses =
    "  - {name: squares, type: mse_loss, inputs: conv}\n"
    "  - {name: sizes, type: l1_loss, inputs: conv}\n";

TEST(Metrics, ChangeNothingThatIsTrained) {
  const std::string metrics =
      "  - {name: ratio, type: psnr, data_range: 2}\n"
      "  - {name: bounded, type: tanh, inputs: conv}\n"
      "  - {name: error, type: mean_absolute_error}\n";
  const RunningNet plain(network_of(std::string(kConv) + kPairLosses));
  const RunningNet measured(network_of(kConv + metrics + kPairLosses));
  EXPECT_EQ(measured.gradients(), plain.gradients());
  EXPECT_GT(std::abs(plain.gradients()[0]), 0);

  const Tensor& y = measured.node("conv").tensors.y[0];
  const Tensor& targets = measured.net.field(kTargetsField);
  double ratio = 0, error = 0;
  for (int row = 0; row < 2; ++row) {
    double squares = 0;
    for (int i = 30 * row; i < 30 * (row + 1); ++i) {
      const double value = y.data<float>()[i], target = targets.data<float>()[i];
      squares += (value - target) * (value - target) / 30;
      error += std::abs(std::tanh(value) - target) / 30;
    }
    ratio += 10 * std::log10(4 / squares);
  }
  const auto totals = [&](const std::string& name) {
    const float* of = measured.node(name).tensors.y[0].data<float>();
    return std::pair(of[0], of[1]);
  };
  EXPECT_NEAR(totals("ratio").first, ratio, 1e-4);
  EXPECT_EQ(totals("ratio").second, 2);
  EXPECT_NEAR(totals("error").first, error, 1e-5);
  EXPECT_EQ(totals("error").second, 2);
}

TEST(Metrics, WhatTheyAloneReadHasNoBackwardPass) {
  const TestNetwork network = network_of(std::string(kConv) +
                                         "  - {name: bounded, type: tanh}\n"
                                         "  - {name: ratio, type: psnr, data_range: 2}\n"
                                         "  - {name: loss, type: mse_loss, inputs: conv}\n");
  for (const ResolvedLayer& layer : network.layers) {
    const bool forward_alone = layer.name == "bounded" || layer.name == "ratio";
    for (Pass pass : layer.layer->passes()) {
      const bool idle = forward_alone || pass == Pass::kBackwardData;  // conv reads images
      if (pass != Pass::kForward) {
        EXPECT_EQ(runs(layer, pass), !idle) << layer.name;
      }
    }
  }
}

// The loss of a student that is to make what another part of the network makes.
TEST(Metrics, TargetsAreConstants) {
  const std::string other = "  - {name: other, type: tanh, inputs: images}\n";
  const RunningNet net(network_of(other +
                                  "  - {name: conv, type: conv2d, inputs: images, "
                                  "out_channels: 1, kernel: 3, padding: 1}\n"
                                  "  - {name: loss, type: mse_loss, inputs: [conv, other]}\n"));
  const auto& loss = net.node("loss");
  EXPECT_TRUE(loss.tensors.dx[0]);
  EXPECT_FALSE(loss.tensors.dx[1]);
  EXPECT_FALSE(loss.tensors.dx[2]);
  ASSERT_EQ(loss.inputs.size(), 3u);
  EXPECT_EQ(loss.inputs[2].field, kRowsField);
}

TEST(Metrics, WeightsThatNothingTrainsAreAMistake) {
  const std::string loss = "  - {name: loss, type: mse_loss, inputs: conv}\n";
  const std::string other =
      "  - {name: other, type: conv2d, inputs: images, out_channels: 1, kernel: 3, padding: 1}\n"
      "  - {type: tanh}\n";
  const std::string measured = kConv + other + "  - {type: psnr, data_range: 1}\n" + loss;
  EXPECT_TRUE(has(mistake_of(measured), "test.yaml:5:", "layer other (conv2d)",
                  "no loss passes a gradient to its weights"));
  EXPECT_TRUE(has(mistake_of(kConv + other + "  - {type: mse_loss, inputs: [conv, tanh1]}\n"),
                  "layer other (conv2d)", "losses as their targets"));
  EXPECT_EQ(network_of(measured, false).layers.size(), 5u);  // which is not trained
}

TEST(Metrics, AreReadByNobodyAndNoLosses) {
  const std::string metric = "  - {name: ratio, type: psnr, data_range: 1}\n";
  EXPECT_TRUE(has(mistake_of(kConv + metric), "the network has no loss"));
  EXPECT_TRUE(has(mistake_of(kConv + metric + "  - {type: mse_loss, inputs: ratio}\n"),
                  "reads ratio, a metric, which no layer can read"));
  EXPECT_TRUE(has(mistake_of(std::string(kConv) + "  - {type: psnr, data_range: 1, weight: 2}\n"
                                                  "  - {type: mse_loss}\n"),
                  "unknown key 'weight'"));
  const TestNetwork network = network_of(kConv + metric + "  - {type: mse_loss}\n");
  EXPECT_EQ(network.layers.at(2).inputs.at(0).layer, 0) << "the loss reads conv, not the metric";
  EXPECT_EQ(without_losses(network.layers).size(), 1u);
}

// Samples of 5 positions with 4 numbers each, and a label for each position.
TestNetwork network_of_positions(const std::string& layers, int64_t classes, const Shape& labels) {
  TestNetwork network;
  network.config = read_yaml(kHead + ("layers:\n" + layers), "test.yaml");
  ConfigErrors errors("test.yaml");
  network.spec = read_net_spec(network.config, errors);
  const std::vector<BatchField> fields = {
      {std::string(kImagesField), FieldKind::kImages, {{3, 5, 4}}},
      {std::string(kLabelsField), FieldKind::kClasses, {labels, DType::kInt32}, classes}};
  if (errors.empty()) network.layers = resolve(network.spec, fields, errors, true);
  errors.raise_if_any();
  return network;
}

constexpr const char* kOfPositions =
    "  - {name: norm, type: layer_norm}\n"
    "  - {name: loss, type: softmax_cross_entropy}\n"
    "  - {name: top, type: top_k_accuracy, k: 2}\n";

TEST(Metrics, OfPositions) {
  const TestNetwork network = network_of_positions(kOfPositions, 4, {3, 5});
  Context context(Device::kCpu);
  Weights weights(network.layers, 1, Device::kCpu);
  Net net(network.layers, weights, context);
  RunningNet::fill(net.field(kImagesField), 0.37);
  int32_t* const labels = net.labels().data<int32_t>();
  for (int i = 0; i < 15; ++i) labels[i] = i % 5 - 1;
  const uint64_t step = 0;
  net.forward(&step);
  net.backward(&step);
  const Net::Node& loss = *net.losses()[0].node;
  EXPECT_EQ(loss.tensors.y[1].data<int32_t>()[1], 12);
  EXPECT_GT(loss.tensors.y[0].data<float>()[0], 0);
  EXPECT_TRUE(loss.tensors.dx[0]);
  const float* const totals = net.metrics()[0]->tensors.y[0].data<float>();
  EXPECT_GE(totals[0], static_cast<float>(loss.tensors.y[1].data<int32_t>()[0]));
  EXPECT_EQ(totals[1], 12);
}

TEST(Metrics, OfPositionsNeedALabelEach) {
  const auto mistake = [](const std::string& layers, int64_t classes, const Shape& labels) {
    return error_of<ConfigError>([&] { network_of_positions(layers, classes, labels); });
  };
  EXPECT_TRUE(has(mistake(kOfPositions, 4, {3}), "layer loss (softmax_cross_entropy)",
                  "takes labels 3x5 int32 for logits 3x5x4, not 3 int32"));
  const std::string many = mistake(kOfPositions, 6, {3, 5});
  EXPECT_TRUE(has(many, "layer loss: the data has 6 classes", "layer norm has only 4 outputs",
                  "layer top: the data has 6 classes"));
  const std::string ignoring =
      "  - {name: norm, type: layer_norm}\n"
      "  - {name: loss, type: softmax_cross_entropy, ignore_class: 4}\n";
  EXPECT_EQ(mistake(ignoring, 5, {3, 5}), "");
  EXPECT_TRUE(has(mistake(ignoring, 6, {3, 5}), "the data has 6 classes"));
}

TEST(Metrics, NeedFieldsThatTheDataHas) {
  const auto refused = [](const std::string& layers) {
    return error_of<ConfigError>([&] {
      make_network(kHead + ("layers:\n" + layers), {{3, 1, 6, 5}});
    });
  };
  EXPECT_TRUE(has(refused(std::string(kConv) + "  - {name: loss, type: mse_loss}\n"),
                  "layer loss (mse_loss): the data set has no field 'targets'",
                  "it has images, labels"));
  EXPECT_TRUE(has(refused(std::string(kConv) + "  - {type: mse}\n"), "takes logits N x C",
                  "mse_loss, l1_loss or charbonnier_loss"));
  EXPECT_TRUE(has(mistake_of(std::string(kConv) + "  - {name: half, type: max_pool2d, kernel: 2}\n"
                                                  "  - {name: loss, type: l1_loss}\n"),
                  "compares tensors of one shape", "3x1x3x2", "3x1x6x5",
                  "3x1x3x2 comes from layer half", "3x1x6x5 comes from the data"));
}

// A record is gathered in rows, whatever the layout: what wants another reads it through a reorder.
TEST(Metrics, RecordsAreReorderedForWhoWantsAnotherLayout) {
  const auto layers_of = [](FieldKind targets) {
    ConfigNode config = read_yaml(
        "backend: cpu_reference\nlayout: nhwc\ndata: {dataset: synthetic_images, batch: 3}\n"
        "layers:\n"
        "  - {name: conv, type: conv2d, out_channels: 2, kernel: 1}\n"
        "  - {name: loss, type: mse_loss}\n",
        "test.yaml");
    ConfigErrors errors("test.yaml");
    const NetSpec spec = read_net_spec(config, errors);
    std::vector<BatchField> fields = labelled_images({{3, 2, 6, 5}}, 10);
    fields.push_back({std::string(kTargetsField), targets, {{3, 2, 6, 5}}});
    const std::vector<ResolvedLayer> layers = resolve(spec, fields, errors, true);
    errors.raise_if_any();
    std::string names;
    for (const ResolvedLayer& layer : layers) names += layer.name + " ";
    return names;
  };
  EXPECT_EQ(layers_of(FieldKind::kImages), "conv loss ");
  EXPECT_EQ(layers_of(FieldKind::kNumbers), "conv reorder_loss loss ");
}

}  // namespace
}  // namespace duet
