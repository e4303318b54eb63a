// A whole network: its gradients, its initial values and the choice of implementations.
#include "net/net.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/error.h"
#include "device/philox.h"
#include "layers/add/add.h"
#include "layers/conv2d_pool_relu/conv2d_pool_relu.h"
#include "net/table.h"
#include "support/double_base.h"
#include "support/network.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr const char* kSmallCnn = R"(
backend: cpu_reference
LAYOUT
data: {dataset: synthetic_images, batch: 3}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3}
  - {type: tanh}
  - {type: avg_pool2d, kernel: 2}
  - {name: conv2, type: conv2d, out_channels: 5, kernel: 3, padding: 1, stride: 2}
  - {type: sigmoid}
  - {type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {type: softmax_cross_entropy}
)";

// Values that several layers read, add and concat, images that are read twice, and layouts that
// differ.
constexpr const char* kSmallGraph = R"(
backend: cpu_reference
LAYOUT
data: {dataset: synthetic_images, batch: 3}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, padding: 1}
  - {name: tanh1, type: tanh}
  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, padding: 1, layout: nchw}
  - {name: side, type: conv2d, inputs: images, out_channels: 4, kernel: 3, padding: 1}
  - {name: sum, type: add, inputs: [conv2, tanh1, side, tanh1]}
  - {name: sigmoid1, type: sigmoid}
  - {name: both, type: concat, inputs: [sigmoid1, tanh1, images]}
  - {name: conv3, type: conv2d, out_channels: 3, kernel: 3, stride: 2}
  - {type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {type: softmax_cross_entropy}
)";

// The first layer has parameters and an input without a gradient.
constexpr const char* kSmallNorm = R"(
backend: cpu_reference
LAYOUT
data: {dataset: synthetic_images, batch: 3}
layers:
  - {name: norm0, type: batch_norm2d}
  - {name: conv1, type: conv2d, out_channels: 8, kernel: 3, padding: 1, bias: false}
  - {name: norm1, type: batch_norm2d}
  - {type: tanh}
  - {type: global_avg_pool2d}
  - {type: flatten}
  - {name: fc1, type: linear, out_features: 16}
  - {name: norm2, type: batch_norm1d, eps: 0.1}
  - {name: fc, type: linear, out_features: 4}
  - {type: softmax_cross_entropy}
)";

// A loss of weight 0.3 in the middle, whose layers lead nowhere else, and one of weight 2 at the end.
constexpr const char* kTwoLosses = R"(
backend: cpu_reference
LAYOUT
data: {dataset: synthetic_images, batch: 3}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, padding: 1}
  - {name: tanh1, type: tanh}
  - {type: flatten}
  - {name: early, type: linear, out_features: 5}
  - {name: aux, type: multi_margin, weight: 0.3}
  - {name: squashed, type: tanh}
  - {name: fit, type: mse, inputs: [squashed, labels], weight: 0.5}
  - {name: conv2, type: conv2d, inputs: tanh1, out_channels: 3, kernel: 3, stride: 2}
  - {type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {name: main, type: softmax_cross_entropy, weight: 2}
)";

// Images that are read as a view, by a layer without parameters, and in both layouts.
constexpr const char* kImageReaders = R"(
backend: cpu_reference
LAYOUT
data: {dataset: synthetic_images, batch: 3}
layers:
  - {name: flat, type: flatten}
  - {name: fc1, type: linear, out_features: 3}
  - {name: squashed, type: tanh, inputs: images}
  - {name: conv1, type: conv2d, inputs: images, out_channels: 2, kernel: 3, layout: nchw}
  - {name: conv2, type: conv2d, inputs: squashed, out_channels: 2, kernel: 3, layout: nhwc}
  - {name: sum, type: add, inputs: [conv1, conv2]}
  - {type: flatten}
  - {name: fc2, type: linear, out_features: 3}
  - {name: end, type: add, inputs: [fc1, fc2, fc1]}
  - {name: fc, type: linear, out_features: 4}
  - {type: softmax_cross_entropy}
)";

// Images with one reader, whose output is they themselves.
constexpr const char* kOneView = R"(
backend: cpu_reference
LAYOUT
data: {dataset: synthetic_images, batch: 3}
layers:
  - {type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {type: softmax_cross_entropy}
)";

std::string in_layout(std::string yaml, const std::string& layout) {
  return yaml.replace(yaml.find("LAYOUT"), 6, "layout: " + layout);
}

std::string small_cnn(const std::string& layout) { return in_layout(kSmallCnn, layout); }

// Runs a network in double on fixed images and labels.
class DoubleNet {
 public:
  struct Options {
    std::vector<std::string> gradients_of = {};
    bool losses = true;
    int64_t channels = 1;
  };
  explicit DoubleNet(const std::string& yaml) : DoubleNet(yaml, Options()) {}
  DoubleNet(const std::string& yaml, const Options& options)
      : context_(Device::kCpu),
        network_(make_network(yaml, {{3, options.channels, 10, 9}, DType::kFloat64}, 4,
                              options.gradients_of)),
        layers_(options.losses ? network_.layers : without_losses(network_.layers)),
        weights_(layers_, 7, Device::kCpu),
        net_(layers_, weights_, context_) {
    for (int64_t i = 0; i < net_.input().elements(); ++i) {
      net_.input().data<double>()[i] =
          uniform_float(philox_block(3, 0, 9, static_cast<uint32_t>(i)).v[0]) - 0.5;
    }
    for (int i = 0; net_.labels() && i < 3; ++i) net_.labels().data<int32_t>()[i] = i;
  }
  double loss() {
    net_.forward(&step_);
    double sum = 0;
    for (const Net::Loss& loss : net_.losses()) {
      sum += static_cast<double>(loss.weight) * loss.value().data<double>()[0];
    }
    return sum;
  }
  void backward() { net_.backward(&step_); }
  Net& net() { return net_; }

 private:
  uint64_t step_ = 0;
  Context context_;
  TestNetwork network_;
  std::vector<ResolvedLayer> layers_;
  Weights weights_;
  Net net_;
};

// In double.
std::vector<double> values_in(const Tensor& tensor) {
  return {tensor.data<double>(), tensor.data<double>() + tensor.elements()};
}

// `gradient` of every element of `tensor` against differences of `objective`.
void expect_slopes(const Tensor& tensor, const std::vector<double>& gradient,
                   const std::function<double()>& objective, const std::string& name,
                   int64_t stride = 1) {
  const double step = 1e-5;
  for (int64_t i = 0; i < tensor.elements(); i += stride) {
    double& value = tensor.data<double>()[i];
    const double kept = value;
    value = kept + step;
    const double above = objective();
    value = kept - step;
    const double below = objective();
    value = kept;
    const double slope = (above - below) / (2 * step);
    EXPECT_NEAR(gradient[static_cast<size_t>(i)], slope, 1e-8 + 1e-6 * std::abs(slope))
        << name << "[" << i << "]";
  }
}

TEST(Net, GradientsEqualFiniteDifferences) {
  for (const std::string& yaml : {in_layout(kSmallCnn, "nchw"), in_layout(kSmallCnn, "nhwc"),
                                  in_layout(kSmallGraph, "nchw"), in_layout(kSmallGraph, "nhwc"),
                                  in_layout(kSmallNorm, "nchw"), in_layout(kSmallNorm, "nhwc"),
                                  in_layout(kTwoLosses, "nchw"), in_layout(kTwoLosses, "nhwc")}) {
    DoubleNet network(yaml);
    network.loss();
    network.backward();
    int checked = 0;
    const Weights& weights = network.net().weights();
    for (const Parameter& parameter : weights.parameters()) {
      if (!parameter.spec.trained()) continue;
      const Tensor w = weights.view(parameter);
      expect_slopes(
          w, values_in(Weights::view(parameter, network.net().gradients())),
          [&] { return network.loss(); }, parameter.name, 7);
      checked += static_cast<int>((w.elements() + 6) / 7);
    }
    EXPECT_GT(checked, 40);
  }
}

// The images' gradient, whoever reads them; and those of the parameters are the same bits as without.
TEST(Net, GradientOfTheImagesEqualsFiniteDifferences) {
  for (const char* yaml :
       {kSmallCnn, kSmallGraph, kSmallNorm, kTwoLosses, kImageReaders, kOneView}) {
    for (const std::string layout : {"nchw", "nhwc"}) {
      SCOPED_TRACE(yaml + layout);
      DoubleNet network(in_layout(yaml, layout), {.gradients_of = {"images"}, .channels = 2});
      network.loss();
      network.backward();
      const Tensor images = network.net().input();
      ASSERT_TRUE(network.net().input_gradient());
      EXPECT_EQ(network.net().input_gradient().desc, images.desc);
      expect_slopes(
          images, values_in(network.net().input_gradient()), [&] { return network.loss(); },
          "images");

      DoubleNet plain(in_layout(yaml, layout), {.channels = 2});
      EXPECT_FALSE(plain.net().input_gradient());
      plain.loss();
      plain.backward();
      for (const Parameter& parameter : plain.net().weights().parameters()) {
        if (!parameter.spec.trained()) continue;
        EXPECT_EQ(values_in(Weights::view(parameter, network.net().gradients())),
                  values_in(Weights::view(parameter, plain.net().gradients())))
            << parameter.name;
      }
    }
  }
}

// As in a backward pass from losses, images too. What the caller writes stays.
TEST(Net, StartsABackwardPassFromAGradientOfItsOutput) {
  for (const char* yaml : {kSmallCnn, kSmallGraph, kSmallNorm, kImageReaders, kOneView}) {
    for (const std::string layout : {"nchw", "nhwc"}) {
      SCOPED_TRACE(yaml + layout);
      DoubleNet network(in_layout(yaml, layout),
                        {.gradients_of = {"images"}, .losses = false, .channels = 2});
      const Net& net = network.net();
      ASSERT_TRUE(net.output_gradient());
      EXPECT_EQ(net.output_gradient().desc, net.output().desc);
      EXPECT_FALSE(net.objective());
      std::vector<double> dy;
      for (int64_t i = 0; i < net.output().elements(); ++i) dy.push_back(std::sin(i + 1.0));
      std::copy(dy.begin(), dy.end(), net.output_gradient().data<double>());
      const auto objective = [&] {
        network.loss();
        const std::vector<double> y = values_in(net.output());
        return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
      };
      objective();
      network.backward();
      EXPECT_EQ(values_in(net.output_gradient()), dy);
      expect_slopes(net.input(), values_in(net.input_gradient()), objective, "images", 3);
      for (const Parameter& parameter : net.weights().parameters()) {
        if (!parameter.spec.trained()) continue;
        expect_slopes(net.weights().view(parameter),
                      values_in(Weights::view(parameter, net.gradients())), objective,
                      parameter.name, 7);
      }
    }
  }
  EXPECT_FALSE(DoubleNet(in_layout(kOneView, "nchw")).net().output_gradient());
}

// As they are, or all but the first in another layout.
TEST(Net, SaysWhereTooManyReadAFieldWhoseGradientIsWanted) {
  for (const std::string layout : {"nchw", "nhwc"}) {
    std::string yaml = "backend: cpu\nlayout: " + layout +
                       "\ndata: {dataset: synthetic_images, batch: 2}\nlayers:\n"
                       "  - {name: first, type: tanh, layout: nchw}\n";
    std::string names = "first";
    for (int64_t i = 0; i <= kMostReaders; ++i) {
      const std::string name = "tanh" + std::to_string(i);
      yaml += "  - {name: " + name + ", type: tanh, inputs: images}\n";
      names += ", " + name;
    }
    yaml += "  - {name: sum, type: concat, inputs: [" + names + "]}\n  - {type: flatten}\n" +
            "  - {type: linear, out_features: 4}\n  - {type: softmax_cross_entropy}\n";
    const TensorDesc images{{2, 2, 6, 6}};
    EXPECT_GT(make_network(yaml, images, 4).layers.size(), 69u);
    EXPECT_TRUE(has(error_of<ConfigError>([&] { make_network(yaml, images, 4, {"images"}); }),
                    layout == "nchw" ? "the field 'images' is read 66 times; at most 64 are"
                                     : "the field 'images' is read 65 times; at most 64 are"));
  }
}

// What a network of several losses predicts is what the last of them reads.
TEST(Net, PredictsWithoutItsLosses) {
  DoubleNet training(in_layout(kTwoLosses, "nchw"));
  training.loss();
  Context context(Device::kCpu);
  const TestNetwork same =
      make_network(in_layout(kTwoLosses, "nchw"), {{3, 1, 10, 9}, DType::kFloat64}, 4);
  Net net(without_losses(same.layers), training.net().weights(), context, Net::Mode::kInference);
  EXPECT_TRUE(net.losses().empty());
  EXPECT_FALSE(net.labels());
  std::copy_n(training.net().input().data<double>(), training.net().input().elements(),
              net.input().data<double>());
  net.infer();
  ASSERT_EQ(net.output().desc.shape, (Shape{3, 4}));
  for (int64_t i = 0; i < net.output().elements(); ++i) {
    EXPECT_EQ(net.output().data<double>()[i], training.net().output().data<double>()[i]) << i;
  }
}

TEST(Net, ObjectiveIsTheSumOfItsLossesByTheirWeights) {
  TestTraining t(R"(
backend: cpu
data: {dataset: synthetic_images, batch: 100, train_count: 400, validation_count: 250}
optimizer: {type: sgd, learning_rate: 0.1}
layers:
  - {type: flatten}
  - {name: fc1, type: linear, out_features: 12}
  - {name: aux, type: bce_with_logits, weight: 0.25}
  - {type: relu, inputs: fc1}
  - {name: fc2, type: linear, out_features: 10}
  - {name: main, type: softmax_cross_entropy}
)");
  Training& training = *t.training;
  for (int i = 0; i < 4; ++i) {
    training.step();
    const std::vector<Net::Loss>& losses = training.net().losses();
    ASSERT_EQ(losses.size(), 2u);
    const double sum = 0.25 * static_cast<double>(losses[0].value().data<float>()[0]) +
                       static_cast<double>(losses[1].value().data<float>()[0]);
    EXPECT_FLOAT_EQ(training.state().last_loss, static_cast<float>(sum));
  }
  const Metrics metrics = training.totals().metrics(training.state());
  ASSERT_EQ(metrics.parts.size(), 4u);
  EXPECT_EQ(metrics.parts[0].name, "aux");
  EXPECT_EQ(metrics.parts[1].name, "aux_accuracy");
  EXPECT_EQ(metrics.parts[2].name, "main");
  EXPECT_EQ(metrics.parts[3].value, metrics.accuracy);
  EXPECT_NEAR(metrics.loss, 0.25 * metrics.parts[0].value + metrics.parts[2].value, 1e-12);
  EXPECT_EQ(metrics.rows, 400);
  const Metrics evaluated = training.evaluate();
  EXPECT_EQ(evaluated.rows, 250);
  EXPECT_EQ(evaluated.classes.size(), 10u);  // of the last loss
  const std::vector<MetricInfo> known = metrics_of(t.network.layers);
  for (const char* name : {"val_loss", "val_accuracy", "val_aux", "train_aux", "val_aux_accuracy",
                           "train_main", "val_top5"}) {
    const MetricInfo* const metric = find_metric(known, name);
    ASSERT_TRUE(metric) << name;
    EXPECT_EQ(metric->larger_is_better, metric->is_share) << name;
  }
}

TEST(Net, LossIsTheSameInBothLayouts) {
  DoubleNet nchw(small_cnn("nchw")), nhwc(small_cnn("nhwc"));
  EXPECT_NEAR(nchw.loss(), nhwc.loss(), 1e-12);
}

TEST(Net, SplitLayersStandWhereAGradientComesFromSeveral) {
  const TestNetwork network =
      make_network(in_layout(kSmallGraph, "nhwc"), {{3, 1, 10, 9}, DType::kFloat64}, 4);
  std::vector<std::string> lines;
  for (const ResolvedLayer& layer : network.layers) {
    std::string line = layer.name + ":";
    for (const InputSource& source : layer.inputs) {
      line +=
          " " + (source.layer == kField ? source.field
                                        : network.layers[static_cast<size_t>(source.layer)].name +
                                              "." + std::to_string(source.output));
    }
    lines.push_back(line);
  }
  EXPECT_EQ(lines,
            (std::vector<std::string>{
                "conv1: images", "tanh1: conv1.0", "split_tanh1: tanh1.0",
                "reorder_conv2: split_tanh1.0", "conv2: reorder_conv2.0", "side: images",
                "reorder_sum: conv2.0", "sum: reorder_sum.0 split_tanh1.1 side.0 split_tanh1.2",
                "sigmoid1: sum.0", "both: sigmoid1.0 split_tanh1.3 images", "conv3: both.0",
                "reorder_flatten1: conv3.0", "flatten1: reorder_flatten1.0", "fc: flatten1.0",
                "softmax_cross_entropy1: fc.0 labels"}));
}

TEST(Net, OnlyWhatDependsOnParametersHasAGradient) {
  const TestNetwork network = make_network(
      "backend: cpu_reference\n"
      "data: {dataset: synthetic_images, batch: 2}\n"
      "layers:\n"
      "  - {name: tanh1, type: tanh}\n"
      "  - {name: conv1, type: conv2d, out_channels: 2, kernel: 3}\n"
      "  - {name: conv2, type: conv2d, inputs: tanh1, out_channels: 2, kernel: 3}\n"
      "  - {name: sum, type: add, inputs: [conv1, conv2]}\n"
      "  - {type: flatten}\n"
      "  - {name: fc, type: linear, out_features: 4}\n"
      "  - {type: softmax_cross_entropy}\n",
      {{2, 1, 6, 6}}, 4);
  Context context(Device::kCpu);
  Weights weights(network.layers, 1, Device::kCpu);
  const Net net(network.layers, weights, context);
  std::vector<std::string> calls;
  for (const Net::Call& call : net.calls()) {
    calls.push_back(call.node->name + " " + std::string(to_string(call.step->pass)));
  }
  EXPECT_EQ(calls, (std::vector<std::string>{
                       "tanh1 forward", "conv1 forward", "conv2 forward", "sum forward",
                       "fc forward", "softmax_cross_entropy1 forward",
                       "softmax_cross_entropy1 backward", "fc backward_filter", "fc backward_data",
                       "conv2 backward_filter", "conv1 backward_filter"}));
}

TEST(Net, WhatIsReadBetweenItsPartsIsNotFused) {
  const auto names = [](const std::string& inputs) {
    std::string all;
    for (const ResolvedLayer& layer :
         make_network("backend: cpu\n"
                      "data: {dataset: synthetic_images, batch: 2}\n"
                      "layers:\n"
                      "  - {name: conv1, type: conv2d, out_channels: 2, kernel: 3}\n"
                      "  - {name: relu1, type: relu}\n"
                      "  - {name: pool1, type: max_pool2d, kernel: 2}\n"
                      "  - {name: a, type: flatten, inputs: " +
                          inputs +
                          "}\n"
                          "  - {name: b, type: flatten, inputs: pool1}\n"
                          "  - {name: join, type: concat, inputs: [a, b]}\n"
                          "  - {name: fc, type: linear, out_features: 4}\n"
                          "  - {type: softmax_cross_entropy}\n",
                      {{2, 1, 6, 6}}, 4)
             .layers) {
      all += layer.name + " ";
    }
    return all;
  };
  EXPECT_NE(names("pool1").find("conv1+relu1+pool1 "), std::string::npos) << names("pool1");
  for (const std::string between : {"conv1", "relu1"}) {
    EXPECT_EQ(names(between).find("+"), std::string::npos) << names(between);
  }
}

TEST(Net, SaysWhichInputsItCannotRead) {
  const struct {
    const char* layers;
    const char* message;
  } cases[] = {
      {"[{name: fc1, type: linear, out_features: 4, inputs: [fc2]}, {name: fc2, type: linear,"
       " out_features: 4}]",
       "layer fc1 (linear): inputs: 'fc2' comes after this layer, which can read only those"},
      {"[{name: fc1, type: linear, out_features: 4, inputs: fc1}]",
       "layer fc1 (linear): inputs: a layer cannot read itself"},
      {"[{name: conv1, type: flatten}, {name: fc1, type: linear, out_features: 4, inputs: conv2}]",
       "inputs: there is no layer 'conv2' before this one (did you mean 'conv1'?)"},
      {"[{name: f, type: flatten}, {name: g, type: flatten, inputs: images}, {type: linear,"
       " out_features: 4, inputs: f}]",
       "layer g: nobody reads its output"},
      {"[{name: f, type: flatten, inputs: []}]", "inputs: expected the name of a layer"},
      {"[{name: f, type: flatten, inputs: {a: b}}]", "inputs: expected the name of a layer"},
      {"[{name: images, type: flatten}]", "'images' is what the images of the batch are called"},
      {"[{name: a, type: conv2d, out_channels: 2, kernel: 3}, {name: b, type: conv2d, out_channels:"
       " 2, kernel: 1, inputs: images}, {name: sum, type: add, inputs: [a, b]}, {type: flatten}]",
       "layer sum (add): adds tensors of one shape and layout, not 2x2x4x4 float32 nchw and "
       "2x2x6x6 float32 nchw (its input 2x2x4x4 comes from layer a, 2x2x6x6 comes from layer b)"},
      {"[{name: f, type: flatten}, {name: s, type: split}, {type: linear, out_features: 4}]",
       "layer s (split): is inserted automatically; remove it and list its input under 'inputs'"},
      {"[{name: f, type: flatten}, {name: l, type: linear, out_features: 4, inputs: [f, f]}]",
       "takes one input"},
  };
  for (const auto& c : cases) {
    std::string yaml = c.layers;
    yaml.insert(yaml.size() - 1, ", {type: softmax_cross_entropy}");
    try {
      make_network("backend: cpu\ndata: {dataset: synthetic_images, batch: 2}\nlayers: " + yaml,
                   {{2, 1, 6, 6}}, 4);
      ADD_FAILURE() << "accepted " << yaml;
    } catch (const ConfigError& e) {
      EXPECT_NE(std::string(e.what()).find(c.message), std::string::npos) << yaml << "\n"
                                                                          << e.what();
    }
  }
}

TEST(Net, ReorderLayersStandWhereLayoutsDiffer) {
  const TestNetwork network = make_network(small_cnn("nhwc"), {{3, 1, 10, 9}, DType::kFloat64}, 4);
  std::vector<std::string> names;
  for (const ResolvedLayer& layer : network.layers) names.push_back(layer.name);
  EXPECT_EQ(names, (std::vector<std::string>{"conv1", "tanh1", "avg_pool2d1", "conv2", "sigmoid1",
                                             "reorder_flatten1", "flatten1", "fc",
                                             "softmax_cross_entropy1"}));
}

TEST(Net, InitialValuesFollowTheirDistribution) {
  ParameterSpec spec{"weight", {{256, 3200}}, Init::kDefault, 3200, 256};
  const auto moments = [&](Init init) {
    spec.init = init;
    double sum = 0, squares = 0;
    for (float v : initial_values(spec, 1, 0)) {
      sum += v;
      squares += static_cast<double>(v) * v;
    }
    const double n = static_cast<double>(spec.desc.elements());
    return std::pair(sum / n, std::sqrt(squares / n));
  };
  const double in = 3200, out = 256;
  const auto expect = [&](Init init, double deviation) {
    const auto [mean, found] = moments(init);
    EXPECT_NEAR(mean, 0.0, 5 * deviation / std::sqrt(in * out));
    EXPECT_NEAR(found, deviation, 0.01 * deviation);
  };
  expect(Init::kDefault, 1 / std::sqrt(3 * in));
  expect(Init::kXavierUniform, std::sqrt(2 / (in + out)));
  expect(Init::kXavierNormal, std::sqrt(2 / (in + out)));
  expect(Init::kHeUniform, std::sqrt(2 / in));
  expect(Init::kHeNormal, std::sqrt(2 / in));
}

TEST(Net, ParametersAreReadInPyTorchsOrderWhateverTheLayout) {
  DoubleNet nchw(small_cnn("nchw")), nhwc(small_cnn("nhwc"));
  const Weights &a = nchw.net().weights(), &b = nhwc.net().weights();
  for (size_t i = 0; i < a.parameters().size(); ++i) {
    EXPECT_EQ(a.read(a.parameters()[i]), b.read(b.parameters()[i]));
  }
}

// Training at batch 3, prediction at 1 without a loss.
TEST(Net, WeightsServeNetsOfOtherBatches) {
  DoubleNet training(small_cnn("nhwc"));
  training.loss();
  const TestNetwork alone = make_network(small_cnn("nhwc"), {{1, 1, 10, 9}, DType::kFloat64}, 4);
  Context context(Device::kCpu);
  Net net(without_losses(alone.layers), training.net().weights(), context, Net::Mode::kInference);
  EXPECT_EQ(net.nodes().back().name, training.net().nodes().rbegin()[1].name);
  EXPECT_EQ(net.gradients().memory, nullptr);
  for (const Net::Call& call : net.calls()) EXPECT_EQ(call.step->pass, Pass::kForward);
  const Tensor logits = training.net().nodes().back().tensors.x[0];
  const int64_t pixels = net.input().elements(), classes = net.output().elements();
  for (int64_t image = 0; image < 3; ++image) {
    std::copy_n(training.net().input().data<double>() + image * pixels, pixels,
                net.input().data<double>());
    net.infer();
    for (int64_t i = 0; i < classes; ++i) {
      EXPECT_NEAR(net.output().data<double>()[i], logits.data<double>()[image * classes + i],
                  1e-12);
    }
  }
}

TEST(Net, OneValueAChannelIsRefusedInTrainingAlone) {
  ConfigNode config = read_yaml(
      "backend: cpu\n"
      "data: {dataset: synthetic_images, batch: 1}\n"
      "layers: [{type: flatten}, {name: bn, type: batch_norm1d}, {type: softmax_cross_entropy}]\n",
      "test.yaml");
  for (const bool training : {true, false}) {
    ConfigErrors errors("test.yaml");
    const NetSpec spec = read_net_spec(config, errors);
    resolve(spec, labelled_images({{1, 1, 4, 4}}, 10), errors, training);
    const std::string message = error_of<ConfigError>([&] { errors.raise_if_any(); });
    EXPECT_EQ(message.empty(), !training) << message;
    if (training) {
      EXPECT_TRUE(has(message, "layer bn (batch_norm1d)", "batch"));
    }
  }
}

TEST(Net, WhatIsNeverNeededTogetherSharesMemory) {
  DoubleNet training(in_layout(kSmallGraph, "nhwc"));
  EXPECT_LT(training.net().activation_bytes(), training.net().unshared_bytes());
  const TestNetwork network =
      make_network(in_layout(kSmallGraph, "nhwc"), {{3, 1, 10, 9}, DType::kFloat64}, 4);
  Context context(Device::kCpu);
  Net inference(network.layers, training.net().weights(), context, Net::Mode::kInference);
  EXPECT_LT(inference.activation_bytes(), training.net().activation_bytes() / 2);
  std::copy_n(training.net().input().data<double>(), training.net().input().elements(),
              inference.input().data<double>());
  std::copy_n(training.net().labels().data<int32_t>(), 3, inference.labels().data<int32_t>());
  inference.infer();
  EXPECT_EQ(inference.objective().data<double>()[0], training.loss());
}

TEST(Net, WeightsOfAnotherNetworkAreRefused) {
  const TestNetwork one = make_network(small_cnn("nchw"), {{1, 1, 10, 9}}, 4);
  const TestNetwork other = make_network(small_cnn("nchw"), {{1, 1, 16, 16}}, 4);
  Context context(Device::kCpu);
  Weights weights(one.layers, 1, Device::kCpu);
  EXPECT_THROW(Net(other.layers, weights, context), std::logic_error);
}

TEST(Net, TheImplementationNamedIsTheOneThatRuns) {
  const TestNetwork network = make_network(R"(
backend: cpu
data: {dataset: synthetic_images, batch: 2}
layers:
  - {type: conv2d, out_channels: 2, kernel: 3,
     backend: {forward: cpu_reference, backward_filter: cpu_blas}}
  - {type: flatten}
  - {type: linear, out_features: 10, backend: cpu_reference}
  - {type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)",
                                           {{2, 1, 6, 6}});
  Context context(Device::kCpu);
  Weights weights(network.layers, 1, Device::kCpu);
  const Net net(network.layers, weights, context);
  const auto ids = [&](size_t node) {
    std::vector<std::string> list;
    for (const Net::Node::Step& step : net.nodes()[node].steps) list.push_back(step.id);
    return list;
  };
  EXPECT_EQ(ids(0), (std::vector<std::string>{"cpu_reference", "cpu_blas", "cpu_blas"}));
  EXPECT_EQ(ids(2), (std::vector<std::string>(3, "cpu_reference")));
  EXPECT_EQ(ids(3), (std::vector<std::string>(3, "cpu_blas")));
}

std::vector<ResolvedLayer> one_block(const std::string& backend, const std::string& of_conv = "",
                                     const std::string& of_pool = "") {
  return make_network("backend: " + backend + R"(
data: {dataset: synthetic_images, batch: 2}
layers:
  - {name: conv, type: conv2d, out_channels: 2, kernel: 3)" +
                          of_conv + R"(}
  - {name: pool, type: max_pool2d, kernel: 2)" +
                          of_pool + R"(}
  - {name: relu, type: relu}
  - {type: flatten}
  - {type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)",
                      {{2, 1, 6, 6}})
      .layers;
}

// norm1 has one reader and norm2 two; norm3 is of features.
std::vector<std::string> with_norms(const std::string& backend, const std::string& of_norm1 = "",
                                    const std::string& of_relu1 = "") {
  const auto layers = make_network("backend: " + backend + R"(
data: {dataset: synthetic_images, batch: 2}
layers:
  - {name: norm1, type: batch_norm2d, eps: 0.5)" +
                                       of_norm1 + R"(}
  - {name: relu1, type: relu)" + of_relu1 +
                                       R"(}
  - {name: norm2, type: batch_norm2d}
  - {name: relu2, type: relu}
  - {type: add, name: sum, inputs: [norm2, relu2]}
  - {name: flatten, type: flatten}
  - {name: norm3, type: batch_norm1d}
  - {name: relu3, type: relu}
  - {name: fc, type: linear, out_features: 10}
  - {name: loss, type: softmax_cross_entropy}
)",
                                   {{2, 1, 6, 6}})
                          .layers;
  std::vector<std::string> texts;
  for (const ResolvedLayer& layer : layers) {
    const std::string type(layer.layer->type());
    if (type.find("norm") == std::string::npos) continue;
    texts.push_back(layer.name + " " + type + " " + layer.passes[0].id);
    if (layer.name.starts_with("norm1")) {
      EXPECT_EQ(layer.parameter_prefix, "norm1");
      EXPECT_TRUE(has(layer.layer->problem_text(), "eps=0.5"));
    }
  }
  return texts;
}

TEST(Net, BatchNormAndReluAreABlock) {
  using Texts = std::vector<std::string>;
  const std::string block1 = "norm1+relu1 batch_norm2d_relu ", norm1 = "norm1 batch_norm2d ";
  const auto all = [](const std::string& first, const std::string& id) {
    return Texts{first + id, "norm2 batch_norm2d " + id, "norm3+relu3 batch_norm1d_relu " + id};
  };
  EXPECT_EQ(with_norms("cpu"), all(block1, "cpu_reference"));
  EXPECT_EQ(with_norms("cpu_blas"), all(block1, "cpu_reference"));
  EXPECT_EQ(with_norms("cpu", ", backend: cpu_reference"), all(block1, "cpu_reference"));
  EXPECT_EQ(with_norms("cpu", "", ", backend: cpu_reference"), all(norm1, "cpu_reference"));
  EXPECT_EQ(with_norms("cpu", ", layout: nhwc"), all(norm1, "cpu_reference"));
  EXPECT_EQ(with_norms("cpu\nfuse: false"),
            (Texts{norm1 + "cpu_reference", "norm2 batch_norm2d cpu_reference",
                   "norm3 batch_norm1d cpu_reference"}));
  if (!built_with_cuda()) return;
  EXPECT_EQ(with_norms("custom"), all(block1, "custom_cluster"));
  EXPECT_EQ(with_norms("custom", ", backend: custom_two_pass")[0], block1 + "custom_two_pass");
  EXPECT_EQ(with_norms("custom", ", backend: cudnn")[0], norm1 + "cudnn");  // relu is custom's
  EXPECT_EQ(with_norms("custom_two_pass"), all(block1, "custom_two_pass"));
  EXPECT_EQ(with_norms("cudnn\nmath: bf16"), all(block1, "cudnn"));
  EXPECT_EQ(with_norms("custom_scalar")[0], norm1 + "custom_cluster");  // an id of relu's
}

// With pooling behind relu or before it; else of the first two.
TEST(Net, BatchNormReluAndPoolingAreABlock) {
  const auto names = [](const std::string& backend, const std::string& middle,
                        const std::string& of_pool = "kernel: 2") {
    const std::string pool = "  - {name: pool, type: max_pool2d, " + of_pool + "}\n";
    const std::string relu = "  - {name: relu, type: relu}\n";
    std::vector<std::string> all;
    for (const ResolvedLayer& layer :
         make_network("backend: " + backend +
                          "\ndata: {dataset: synthetic_images, batch: 2}\n"
                          "layers:\n"
                          "  - {name: norm, type: batch_norm2d, eps: 0.5}\n" +
                          (middle == "relu" ? relu + pool : pool + relu) +
                          "  - {type: flatten}\n"
                          "  - {name: fc, type: linear, out_features: 10}\n"
                          "  - {type: mse}\n",
                      {{2, 1, 6, 6}})
             .layers) {
      const std::string type(layer.layer->type());
      if (type.starts_with("batch_norm") || type == "relu" || type == "max_pool2d") {
        all.push_back(layer.name + " " + type + " " + layer.passes[0].id);
      }
      if (layer.name.starts_with("norm")) {
        EXPECT_EQ(layer.parameter_prefix, "norm");
      }
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  const std::string block = " batch_norm2d_relu_pool ", two = "norm+relu batch_norm2d_relu ";
  EXPECT_EQ(names("cpu", "relu"), (Texts{"norm+relu+pool" + block + "cpu_reference"}));
  EXPECT_EQ(names("cpu", "pool"), (Texts{"norm+pool+relu" + block + "cpu_reference"}));
  const std::string overlapping = "kernel: 3, stride: 2, padding: 1";
  EXPECT_EQ(names("cpu\nmath: bf16", "relu", overlapping),
            (Texts{two + "cpu_reference", "pool max_pool2d cpu_reference"}));
  EXPECT_EQ(names("cpu", "relu", "kernel: 2, backend: cpu_reference"),
            (Texts{two + "cpu_reference", "pool max_pool2d cpu_reference"}));
  if (!built_with_cuda()) return;
  EXPECT_EQ(names("custom", "relu"), (Texts{"norm+relu+pool" + block + "custom_cluster"}));
  EXPECT_EQ(names("custom", "pool", overlapping),
            (Texts{"norm+pool+relu" + block + "custom_composed"}));
  EXPECT_EQ(names("cudnn", "relu"), (Texts{"norm+relu+pool" + block + "cudnn"}));
}

// The longest block that can run: of three layers, else of the first two.
TEST(Net, BatchNormReluAndSoftmaxAreABlock) {
  const auto resolved = [](const std::string& backend, const std::string& of_norm = "",
                           const std::string& of_softmax = "") {
    return make_network("backend: " + backend +
                            "\ndata: {dataset: synthetic_images, batch: 2}\n"
                            "layers:\n"
                            "  - {type: flatten}\n"
                            "  - {name: norm, type: batch_norm1d, eps: 0.5" +
                            of_norm +
                            "}\n"
                            "  - {name: relu, type: relu}\n"
                            "  - {name: soft, type: softmax" +
                            of_softmax +
                            "}\n"
                            "  - {name: fc, type: linear, out_features: 10}\n"
                            "  - {type: mse}\n",
                        {{2, 1, 6, 6}})
        .layers;
  };
  const auto names = [&](const auto&... texts) {
    std::vector<std::string> all;
    for (const ResolvedLayer& layer : resolved(texts...)) {
      const std::string type(layer.layer->type());
      if (type.starts_with("batch_norm") || type == "relu" || type == "softmax") {
        all.push_back(layer.name + " " + type + " " + layer.passes[0].id);
      }
    }
    return all;
  };
  using Texts = std::vector<std::string>;
  const std::string block = "norm+relu+soft batch_norm1d_relu_softmax ";
  const std::string two = "norm+relu batch_norm1d_relu ";
  const auto layers = resolved("cpu");
  EXPECT_EQ(layers[1].parameter_prefix, "norm");
  EXPECT_TRUE(has(layers[1].layer->problem_text(), "eps=0.5"));
  EXPECT_EQ(layers[1].unfused, "");
  EXPECT_EQ(names("cpu"), (Texts{block + "cpu_reference"}));
  EXPECT_EQ(names("cpu", ", backend: cpu_reference"), (Texts{block + "cpu_reference"}));
  EXPECT_EQ(names("cpu\nfuse: false"),
            (Texts{"norm batch_norm1d cpu_reference", "relu relu cpu_reference",
                   "soft softmax cpu_reference"}));
  EXPECT_EQ(names("cpu", "", ", backend: cpu_reference"),
            (Texts{two + "cpu_reference", "soft softmax cpu_reference"}));
  EXPECT_EQ(resolved("cpu", "", ", backend: cpu_reference")[1].unfused,
            "norm+relu+soft: soft names an implementation of its own");
  EXPECT_EQ(names("cpu\nmath: bf16"), (Texts{two + "cpu_reference", "soft softmax cpu_reference"}));
  if (!built_with_cuda()) return;
  EXPECT_EQ(names("custom"), (Texts{block + "custom_cluster"}));
  EXPECT_EQ(names("custom\nmath: bf16"), (Texts{block + "custom_cluster"}));
  EXPECT_EQ(names("custom", ", backend: custom_composed"), (Texts{block + "custom_composed"}));
  EXPECT_EQ(names("custom_two_pass"),
            (Texts{two + "custom_two_pass", "soft softmax custom_online"}));
  EXPECT_EQ(names("custom", ", backend: custom_welford"),
            (Texts{two + "custom_welford", "soft softmax custom_online"}));
  EXPECT_EQ(names("cudnn"), (Texts{block + "cudnn"}));
  EXPECT_EQ(names("custom", ", backend: custom_composed", ", backend: custom_naive"),
            (Texts{two + "custom_composed", "soft softmax custom_naive"}));
  EXPECT_TRUE(has(
      error_of<ConfigError>([&] { resolved("custom\nfuse: false", ", backend: custom_composed"); }),
      "'custom_composed' is an implementation of batch_norm1d_relu and "
      "batch_norm1d_relu_softmax alone, and the layer is not fused"));
}

TEST(Net, AddAndReluAreABlockThatSumsTheGradientsOfItsReaders) {
  const auto resolved = [](const std::string& backend) {
    const TestNetwork network =
        make_network("backend: " + backend +
                         "\ndata: {dataset: synthetic_images, batch: 2}\n"
                         "layers:\n"
                         "  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, padding: 1}\n"
                         "  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, padding: 1}\n"
                         "  - {name: sum, type: add, inputs: [conv2, conv1]}\n"
                         "  - {name: relu1, type: relu}\n"
                         "  - {name: a, type: tanh}\n"
                         "  - {name: b, type: tanh, inputs: [relu1]}\n"
                         "  - {name: c, type: tanh, inputs: [relu1]}\n"
                         "  - {name: end, type: concat, inputs: [a, b, c]}\n"
                         "  - {type: flatten}\n"
                         "  - {name: fc, type: linear, out_features: 10}\n"
                         "  - {type: softmax_cross_entropy}\n",
                     {{2, 1, 6, 6}});
    std::vector<std::string> names;
    for (const ResolvedLayer& layer : network.layers) {
      if (layer.name.find("relu1") == std::string::npos) continue;
      names.push_back(layer.name + " " + std::to_string(layer.layer->outputs().size()) + " " +
                      layer.passes[0].id);
    }
    return names;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(resolved("cpu"), (Texts{"sum+relu1 3 cpu_reference"}));
  EXPECT_EQ(resolved("cpu\nfuse: false"),
            (Texts{"relu1 1 cpu_reference", "split_relu1 3 cpu_reference"}));
  if (!built_with_cuda()) return;
  EXPECT_EQ(resolved("custom\nmath: bf16"), (Texts{"sum+relu1 3 custom_vectorized"}));
  EXPECT_EQ(resolved("cudnn"), (Texts{"sum+relu1 3 cudnn"}));
}

TEST(Net, AnIdForTheWholeNetworkGoesWhereItIsKnownAndTablesSayWhereItIsNot) {
  const auto blas = one_block("cpu_blas"), family = one_block("cpu");
  ASSERT_EQ(blas.size(), 4u);
  EXPECT_EQ(blas[2].passes[0].id, "cpu_blas");
  EXPECT_EQ(blas[2].passes[0].instead_of, "");
  EXPECT_EQ(blas[3].passes[0].id, "cpu_reference");
  EXPECT_EQ(blas[3].passes[0].instead_of, "cpu_blas");
  EXPECT_TRUE(has(network_table(blas, nullptr), "cpu_reference (no cpu_blas)"));
  EXPECT_EQ(network_json(blas, nullptr)[3]["passes"][0]["instead_of"], "cpu_blas");
  // A family is never more than its choice.
  EXPECT_EQ(family[3].passes[0].instead_of, "");
  EXPECT_EQ(network_table(family, nullptr).find("(no "), std::string::npos);
}

std::vector<std::string> ids_of(const ResolvedLayer& layer) {
  std::vector<std::string> ids;
  for (const PassChoice& choice : layer.passes) ids.push_back(choice.id);
  return ids;
}

TEST(Net, APassOfABlockCanBeNamed) {
  const auto layers = one_block("cpu_blas", ", backend: {backward_filter: cpu_reference}");
  ASSERT_EQ(layers[0].name, "conv+pool+relu");
  EXPECT_EQ(ids_of(layers[0]), (std::vector<std::string>{"cpu_blas", "cpu_reference", "cpu_blas"}));
  const auto whole = one_block("cpu", ", backend: cpu_reference");
  EXPECT_EQ(whole[0].name, "conv+pool+relu");
  EXPECT_EQ(ids_of(whole[0]), std::vector<std::string>(3, "cpu_reference"));
  EXPECT_EQ(network_table(whole, nullptr).find("not fused"), std::string::npos);
}

TEST(Net, SaysWhatIsNotFusedAndWhy) {
  const auto expect_unfused = [](const std::vector<ResolvedLayer>& layers,
                                 const std::string& reason) {
    ASSERT_EQ(layers[0].name, "conv");
    EXPECT_EQ(layers[0].unfused, "conv+pool+relu: " + reason);
    EXPECT_TRUE(has(network_table(layers, nullptr), "not fused: conv+pool+relu: " + reason));
    EXPECT_EQ(network_json(layers, nullptr)[0]["unfused"], layers[0].unfused);
  };
  expect_unfused(one_block("cpu", "", ", backend: cpu_reference"),
                 "pool names an implementation of its own");
  expect_unfused(one_block("cpu", ", layout: nchw"), "conv names a layout");
  expect_unfused(one_block("cpu", ", backend: {forward: auto}"),
                 "forward is to run by auto, which keeps another state for the backward passes "
                 "than cpu_blas");
  expect_unfused(one_block("cpu\nmath: bf16"),
                 "no implementation of conv2d_pool_relu that is asked for can run it here");
  expect_unfused(one_block("cpu_reference\nmath: bf16"),
                 "no implementation of conv2d_pool_relu that is asked for can run it here");
  if (!built_with_cuda()) return;
  EXPECT_TRUE(has(
      error_of<ConfigError>([] { one_block("custom", ", backend: {forward: custom_composed}"); }),
      "forward is to run by custom_composed, which keeps another state"));
  EXPECT_EQ(ids_of(one_block("custom", ", backend: custom_composed")[0]),
            std::vector<std::string>(3, "custom_composed"));
  expect_unfused(one_block("custom", ", backend: {forward: custom_naive}"),
                 "conv names custom_naive, which the block has not");
  expect_unfused(one_block("custom_naive"), "the block has no custom_naive");
  expect_unfused(one_block("custom", ", backend: {forward: cudnn}"),
                 "forward is to run by cudnn, which keeps another state for the backward passes "
                 "than custom_direct");
  EXPECT_EQ(one_block("custom", ", backend: {backward_filter: custom_direct}")[0].name,
            "conv+pool+relu");
}

TEST(Net, InBf16ActivationsAreBfloat16AndParametersFloat32) {
  const TestNetwork network =
      make_network(in_layout(kSmallGraph, "nhwc") + "math: bf16\n", {{3, 1, 10, 9}}, 4);
  Context context(Device::kCpu);
  Weights weights(network.layers, 1, Device::kCpu);
  Net net(network.layers, weights, context);
  EXPECT_EQ(net.input().desc.dtype, DType::kBFloat16);
  EXPECT_EQ(net.labels().desc.dtype, DType::kInt32);
  EXPECT_EQ(net.objective().desc.dtype, DType::kFloat32);
  for (const Net::Node& node : net.nodes()) {
    if (&node == &net.nodes().back()) continue;
    for (const auto* tensors :
         {&node.tensors.x, &node.tensors.y, &node.tensors.dx, &node.tensors.dy}) {
      for (const Tensor& t : *tensors) {
        EXPECT_TRUE(!t || t.desc.dtype == DType::kBFloat16) << node.name;
      }
    }
    for (const Tensor& w : node.tensors.w) EXPECT_EQ(w.desc.dtype, DType::kFloat32) << node.name;
    for (const Net::Node::Step& step : node.steps) EXPECT_EQ(step.id, "cpu_reference");
  }
}

TEST(Net, AConvolutionCanNameWhatOnlyTheBlockHas) {
  const InList<Conv2dPoolReluProblem> listed(
      conv2d_pool_relu_impls(),
      {{"cpu_block", supports_all, conv2d_pool_relu_cpu_reference().make}});
  const auto whole = one_block("cpu", ", backend: cpu_block");
  ASSERT_EQ(whole[0].name, "conv+pool+relu");
  EXPECT_EQ(ids_of(whole[0]), std::vector<std::string>(3, "cpu_block"));
  const std::string alone =
      "layer conv (conv2d): 'cpu_block' is an implementation of "
      "conv2d_pool_relu alone, and the layer is not fused";
  EXPECT_TRUE(
      has(error_of<ConfigError>([] { one_block("cpu", ", backend: cpu_block", ", layout: nchw"); }),
          alone + ": pool names a layout"));
  EXPECT_TRUE(has(error_of<ConfigError>(
                      [] { one_block("cpu\nfuse: false", ", backend: {forward: cpu_block}"); }),
                  alone));
}

TEST(Net, PassesOfABlockThatKeepDifferentStatesAreRefused) {
  const auto refused = [] {
    make_network(R"(
backend: cpu
data: {dataset: synthetic_images, batch: 2}
layers:
  - {name: block, type: conv2d_pool_relu, out_channels: 2, kernel: 3, pool_kernel: 2,
     backend: {forward: auto, backward_filter: cpu_reference}}
  - {type: flatten}
  - {type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)",
                 {{2, 1, 6, 6}});
  };
  EXPECT_TRUE(
      has(error_of<ConfigError>(refused), "backward_filter by 'cpu_reference' cannot go on with"));
}

TEST(Net, AFirstLayerOfFewChannelsRunsByCustomDirectInFp32AndBf16) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  for (const std::string math : {"fp32", "bf16"}) {
    const auto layers = one_block("custom\nmath: " + math);
    EXPECT_EQ(layers[0].layer->type(), "conv2d_pool_relu") << math;
    for (const std::string& id : ids_of(layers[0])) EXPECT_EQ(id, "custom_direct") << math;
    const auto unfused = one_block("custom\nfuse: false\nmath: " + math);
    EXPECT_EQ(unfused[0].passes[0].id, "custom_direct") << math;
  }
}

TEST(Net, ABlockDoesNotHideAnIdForTheWholeNetwork) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const auto naive = one_block("custom_naive");  // conv2d has it, the block around it has not
  EXPECT_EQ(naive[0].layer->type(), "conv2d");
  EXPECT_EQ(naive[0].passes[0].id, "custom_naive");
  EXPECT_EQ(one_block("custom_direct")[0].layer->type(), "conv2d_pool_relu");
}

}  // namespace
}  // namespace duet
