// Layers that are not trained, and features networks: what is planned for them, and the gradients of the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "device/device.h"
#include "net/fold.h"
#include "net/prediction.h"
#include "net/table.h"
#include "support/network.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr const char* kDoubleHead =
    "backend: cpu_reference\ndata: {dataset: synthetic_images, batch: 3}\n";

// Images of two channels, targets of their shape, labels of 4 classes, and rows.
TestNetwork network_in_double(const std::string& yaml, bool training = true,
                              const TensorDesc& images = {{3, 2, 8, 6}, DType::kFloat64}) {
  TestNetwork network;
  network.config = read_yaml(kDoubleHead + yaml, "test.yaml");
  ConfigErrors errors("test.yaml");
  network.spec = read_net_spec(network.config, errors);
  std::vector<BatchField> fields = labelled_images(images, 4);
  fields.push_back({std::string(kTargetsField), FieldKind::kImages, images});
  if (errors.empty()) network.layers = resolve(network.spec, fields, errors, training);
  errors.raise_if_any();
  return network;
}

std::string mistake_in(const std::string& yaml) {
  return error_of<ConfigError>([&] { network_in_double(yaml); });
}

void fill_waves(const Tensor& tensor, double factor, double shift = 0.0) {
  for (int64_t i = 0; tensor && i < tensor.elements(); ++i) {
    tensor.data<double>()[i] = shift + 0.8 * std::sin(factor * static_cast<double>(i + 1));
  }
}

std::vector<double> doubles_of(const Tensor& tensor) {
  return {tensor.data<double>(), tensor.data<double>() + tensor.elements()};
}

// A network in double with its memory, and a batch.
struct NetInDouble {
  explicit NetInDouble(const std::string& yaml)
      : network(network_in_double(yaml)),
        context(Device::kCpu),
        weights(network.layers, 1, Device::kCpu),
        net(network.layers, weights, context) {
    double factor = 0.3;
    for (const Parameter& parameter : weights.parameters()) {
      const bool positive = parameter.name.ends_with("running_var");
      fill_waves(weights.view(parameter), factor += 0.37, positive ? 1.5 : 0.0);
    }
    fill_waves(net.field(kImagesField), 0.41);
    fill_waves(net.field(kTargetsField), 0.73);
    for (int i = 0; net.labels() && i < 3; ++i) net.labels().data<int32_t>()[i] = i;
  }
  double loss() {
    net.forward(&step);
    double sum = 0;
    for (const Net::Loss& each : net.losses()) {
      sum += static_cast<double>(each.weight) * each.value().data<double>()[0];
    }
    return sum;
  }
  // What runs: "fc forward, fc backward_filter".
  std::set<std::string> calls() const {
    std::set<std::string> all;
    for (const Net::Call& call : net.calls()) {
      all.insert(call.node->name + " " + std::string(to_string(call.step->pass)));
    }
    return all;
  }

  uint64_t step = 5;
  TestNetwork network;
  Context context;
  Weights weights;
  Net net;
};

// All gradients of what is trained are slopes, and nothing else has changed.
void expect_all_slopes(const std::string& yaml) {
  NetInDouble running(yaml);
  const std::vector<double> kept(
      running.weights.buffers().data<double>(),
      running.weights.buffers().data<double>() + running.weights.buffers().bytes() / 8);
  running.loss();
  running.net.backward(&running.step);
  const std::vector<double> gradients(
      running.net.gradients().data<double>(),
      running.net.gradients().data<double>() + running.net.gradients().bytes() / 8);
  int checked = 0;
  double largest = 0;
  for (const Parameter& parameter : running.weights.parameters()) {
    if (!parameter.spec.trained()) continue;
    const Tensor w = running.weights.view(parameter);
    for (int64_t i = 0; i < w.elements(); i += 3, ++checked) {
      double& value = w.data<double>()[i];
      const double before = value;
      value = before + 1e-6;
      const double above = running.loss();
      value = before - 1e-6;
      const double slope = (above - running.loss()) / 2e-6;
      value = before;
      EXPECT_NEAR(gradients[parameter.offset / 8 + static_cast<size_t>(i)], slope,
                  1e-8 + 1e-6 * std::abs(slope))
          << parameter.name << "[" << i << "]";
      largest = std::max(largest, std::abs(slope));
    }
  }
  EXPECT_GT(checked, 15);
  EXPECT_GT(largest, 1e-4);
  EXPECT_TRUE(std::equal(kept.begin(), kept.end(), running.weights.buffers().data<double>()));
}

// What stands before the frozen layers is trained through them.
constexpr const char* kFrozenInside = R"(layers:
  - {name: conv1, type: conv2d, out_channels: 3, kernel: 3, padding: 1}
  - {name: bn, type: batch_norm2d, frozen: true}
  - {name: relu, type: relu}
  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, frozen: true}
  - {name: tanh, type: tanh}
  - {name: flatten, type: flatten}
  - {name: bn1d, type: batch_norm1d, frozen: true}
  - {name: drop, type: dropout, p: 0.5, frozen: true}
  - {name: norm, type: layer_norm, frozen: true}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";

TEST(Frozen, GradientsOfTheOthersEqualFiniteDifferences) {
  for (const char* settings : {"", "fuse: false\n", "layout: nhwc\n"}) {
    SCOPED_TRACE(settings);
    expect_all_slopes(settings + std::string(kFrozenInside));
  }
}

// The passes of these blocks go on with what the others have computed.
TEST(Frozen, BlocksRunOneByOneWhereAGradientPassesThroughThem) {
  const std::string layers = R"(layers:
  - {name: conv0, type: conv2d, out_channels: 3, kernel: 3, padding: 1, frozen: true}
  - {name: relu0, type: relu}
  - {name: pool0, type: max_pool2d, kernel: 2}
  - {name: conv1, type: conv2d, out_channels: 3, kernel: 3, padding: 1}
  - {name: conv2, type: conv2d, out_channels: 3, kernel: 3, padding: 1, frozen: true}
  - {name: relu2, type: relu}
  - {name: pool2, type: max_pool2d, kernel: 2, padding: 1}
  - {name: norm2, type: batch_norm2d, frozen: true}
  - {name: relu3, type: relu}
  - {name: flatten, type: flatten}
  - {name: fc1, type: linear, out_features: 9, frozen: true}
  - {name: relu4, type: relu}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";
  for (const char* settings : {"", "fuse: false\n", "layout: nhwc\n"}) {
    SCOPED_TRACE(settings);
    expect_all_slopes(settings + layers);
  }
  std::string names;
  const TestNetwork network = network_in_double(layers);
  for (const ResolvedLayer& layer : network.layers) names += layer.name + " ";
  EXPECT_EQ(names,
            "conv0+relu0+pool0 conv1 conv2 relu2 pool2 norm2+relu3 flatten fc1 relu4 fc loss ");
  EXPECT_TRUE(has(network_table(network.layers, nullptr),
                  "not fused: conv2+relu2+pool2: it is frozen",
                  "not fused: fc1+relu4: it is frozen"));
  EXPECT_TRUE(has(mistake_in(changed(layers, {{"type: linear, out_features: 9",
                                               "type: linear_relu, out_features: 9"}})),
                  "layer fc1 (linear_relu): is frozen", "write its parts as layers"));
}

TEST(Frozen, NoGradientOfAWeightIsPlanned) {
  NetInDouble running("fuse: false\n" + std::string(kFrozenInside));
  const std::set<std::string> calls = running.calls();
  EXPECT_FALSE(calls.contains("conv2 backward_filter"));
  for (const char* call : {"conv2 backward_data", "bn backward", "conv1 backward_filter",
                           "fc backward_filter", "fc backward_data"}) {
    EXPECT_TRUE(calls.contains(call)) << call;
  }
  std::string trained;
  for (const Parameter& parameter : running.weights.parameters()) {
    if (parameter.spec.trained()) trained += parameter.name + " ";
  }
  EXPECT_EQ(trained, "conv1.weight conv1.bias fc.weight fc.bias ");
  const int64_t frozen = 2 * 3 + (3 * 9 + 1) * 4 + 2 * 2 * 96;
  EXPECT_EQ(frozen_parameter_count(running.network.layers), frozen);
  EXPECT_TRUE(has(network_table(running.network.layers, nullptr),
                  ", of which " + format_count(frozen) + " are frozen\n", "112 frozen"));
}

TEST(Frozen, NothingRunsBackWhereNothingBeforeIsTrained) {
  const NetInDouble running(R"(layers:
  - name: trunk
    type: sequential
    frozen: true
    layers:
      - {name: conv1, type: conv2d, out_channels: 3, kernel: 3, padding: 1}
      - {name: bn, type: batch_norm2d}
      - name: block
        type: residual
        body: [{name: conv2, type: conv2d, out_channels: 3, kernel: 3, padding: 1}]
        activation: relu
  - {name: pool, type: max_pool2d, kernel: 2}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)");
  std::string back;
  for (const std::string& call : running.calls()) {
    if (!call.ends_with(" forward")) back += call + ", ";
  }
  EXPECT_EQ(back, "fc backward_filter, loss backward, ");
}

TEST(Frozen, AComponentMaySayOtherwise) {
  const TestNetwork network = network_in_double(R"(layers:
  - name: trunk
    type: sequential
    frozen: true
    layers:
      - {name: conv1, type: conv2d, out_channels: 3, kernel: 3}
      - {name: conv2, type: conv2d, out_channels: 3, kernel: 3, frozen: false}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)");
  EXPECT_TRUE(network.layers[0].frozen);
  EXPECT_FALSE(network.layers[1].frozen);
}

// A batch of one value a channel has no variance, which a frozen layer does not ask for.
TEST(Frozen, StatisticsAreNotTakenFromTheBatch) {
  const std::string layers = R"(layers:
  - {name: pool, type: global_avg_pool2d}
  - {name: flatten, type: flatten}
  - {name: bn, type: batch_norm1d, frozen: true}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";
  const TensorDesc one = {{1, 2, 8, 6}};
  EXPECT_EQ(network_in_double(layers, true, one).layers.size(), 5u);
  EXPECT_TRUE(has(error_of([&] {
                    network_in_double(changed(layers, {{", frozen: true", ""}}), true, one);
                  }),
                  "layer bn", "has 1 value a channel"));
}

TEST(Frozen, SomethingIsToBeTrained) {
  const std::string layers = R"(layers:
  - {name: conv, type: conv2d, out_channels: 3, kernel: 3, frozen: true}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 4, frozen: true}
  - {name: loss, type: softmax_cross_entropy}
)";
  EXPECT_TRUE(has(mistake_in(layers), "test.yaml:4:5: layer conv (conv2d): is frozen",
                  "there is nothing to train"));
  EXPECT_EQ(network_in_double(layers, false).layers.size(), 4u);
  EXPECT_TRUE(has(mistake_in(changed(layers, {{"frozen: true", "frozen: maybe"}})),
                  "layer conv (conv2d): frozen: expected"));
}

// cuDNN's backward pass is that of a training.
TEST(Frozen, CudnnHasNoGradientThroughANorm) {
  if (!built_with_cuda()) GTEST_SKIP() << "needs a build with CUDA";
  const std::string layers = R"(layers:
  - {name: conv, type: conv2d, out_channels: 8, kernel: 3}
  - {name: norm, type: batch_norm2d, frozen: true}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";
  const auto mistake = [&](const std::string& text) {
    return error_of<UnsupportedError>([&] {
      make_network("backend: cudnn\ndata: {dataset: synthetic_images, batch: 16}\n" + text,
                   {{16, 3, 8, 8}}, 4);
    });
  };
  EXPECT_TRUE(has(mistake(layers), "layer norm (batch_norm2d)",
                  "cuDNN has no backward pass of batch normalisation in evaluation",
                  "these can: custom_"));
  EXPECT_EQ(mistake(changed(layers, {{"frozen: true", "frozen: true, backend: custom"}})), "");
  EXPECT_EQ(mistake(changed(layers, {{"kernel: 3", "kernel: 3, frozen: true"}})), "");
}

// A network of two stages whose weights both losses see; what the network makes is conv2's output.
constexpr const char* kPerceptual = R"(features:
  vgg:
    weights: vgg.safetensors
    layers:
      - {name: conv1, type: conv2d, out_channels: 3, kernel: 3, padding: 1}
      - {name: bn1, type: batch_norm2d}
      - {name: relu1, type: tanh}
      - {name: drop, type: dropout}
      - {name: block, type: residual, body: [{name: conv2, type: conv2d, out_channels: 3, kernel: 3, padding: 1}], activation: tanh}
      - {name: pool, type: avg_pool2d, kernel: 2}
      - {name: flatten, type: flatten}
      - {name: fc, type: linear, out_features: 5}
      - {name: end, type: softmax_cross_entropy}
layers:
  - {name: conv1, type: conv2d, out_channels: 3, kernel: 3, padding: 1}
  - {name: tanh, type: tanh}
  - {name: conv2, type: conv2d, out_channels: 2, kernel: 3, padding: 1}
  - {name: pixels, type: mse_loss, weight: 0.5}
  - {name: seen, type: features, network: vgg, inputs: conv2, until: block}
  - {name: wanted, type: features, network: vgg, inputs: targets, until: block}
  - {name: perceptual, type: mse_loss, inputs: [seen, wanted]}
  - {name: early, type: features, network: vgg, inputs: conv2, until: relu1}
  - {name: early_wanted, type: features, network: vgg, inputs: [targets], until: relu1}
  - {name: style, type: l1_loss, inputs: [early, early_wanted]}
)";

TEST(Features, GradientsThroughThemEqualFiniteDifferences) {
  for (const char* settings : {"", "fuse: false\n", "layout: nhwc\n"}) {
    SCOPED_TRACE(settings);
    expect_all_slopes(settings + std::string(kPerceptual));
  }
}

TEST(Features, ShareOneCopyOfTheirWeights) {
  const NetInDouble running("fuse: false\n" + std::string(kPerceptual));
  std::string names;
  for (const Parameter& parameter : running.weights.parameters()) {
    names += parameter.name + (parameter.features.empty() ? " " : "* ");
  }
  EXPECT_EQ(names,
            "conv1.weight conv1.bias conv2.weight conv2.bias vgg.conv1.weight* vgg.conv1.bias* "
            "vgg.bn1.weight* vgg.bn1.bias* vgg.bn1.running_mean* vgg.bn1.running_var* "
            "vgg.block.conv2.weight* vgg.block.conv2.bias* ");
  const int64_t frozen = (2 * 9 + 1) * 3 + 6 + (3 * 9 + 1) * 3;
  EXPECT_EQ(frozen_parameter_count(running.network.layers), frozen);
  EXPECT_EQ(parameter_count(running.network.layers), frozen + (2 * 9 + 1) * 3 + (3 * 9 + 1) * 2);
  std::set<const void*> places;
  int convolutions = 0;
  for (const Net::Node& node : running.net.nodes()) {
    if (!node.name.ends_with(".conv1")) continue;
    places.insert(node.tensors.w[0].memory);
    ++convolutions;
  }
  EXPECT_EQ(convolutions, 4);
  EXPECT_EQ(places.size(), 1u);
  // Nothing is computed for what is a constant.
  const std::set<std::string> calls = running.calls();
  EXPECT_TRUE(calls.contains("seen.conv1 backward_data"));
  for (const char* call :
       {"wanted.conv1 backward_data", "seen.conv1 backward_filter", "wanted.bn1 backward"}) {
    EXPECT_FALSE(calls.contains(call)) << call;
  }
}

// What the network makes is what the features networks look at, whichever loss comes last.
TEST(Features, PredictionDoesNotRunThem) {
  for (const char* settings : {"", "layout: nhwc\n"}) {
    const TestNetwork network = network_in_double(settings + std::string(kPerceptual));
    std::string left;
    for (const ResolvedLayer& layer : without_losses(network.layers)) left += layer.name + " ";
    EXPECT_TRUE(left.starts_with("conv1 tanh conv2 ")) << left;
    EXPECT_EQ(left.find("."), std::string::npos) << left;
    std::string predicted;
    for (const LayerSpec& layer : prediction_of(network.spec).layers) predicted += layer.name + " ";
    EXPECT_EQ(predicted, "conv1 tanh conv2 ");
    Context context(Device::kCpu);
    Weights weights(network.layers, 1, Device::kCpu);
    Net training(network.layers, weights, context);
    Net net(without_losses(network.layers), weights, context, Net::Mode::kInference);
    fill_waves(net.input(), 0.4);
    fill_waves(training.input(), 0.4);
    net.infer();
    training.infer();
    EXPECT_EQ(net.output().shape(), (Shape{3, 2, 8, 6}));
    EXPECT_EQ(doubles_of(net.output()), doubles_of(training.output()));
  }
}

// As the trunk of the network that is trained they do run.
TEST(Features, MayLeadToTheResult) {
  const TestNetwork network = network_in_double(
      R"(features: {vgg: {weights: v, layers: [{name: conv1, type: conv2d, out_channels: 3, kernel: 3}, {name: relu1, type: relu}]}}
layers:
  - {name: trunk, type: features, network: vgg}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)");
  std::string left;
  for (const ResolvedLayer& layer : without_losses(network.layers)) left += layer.name + " ";
  EXPECT_EQ(left, "trunk.conv1 trunk.relu1 flatten fc ");
}

// Two layers may have weights that only one of them would fold a normalisation into.
TEST(Features, TheirNormsAreNotFolded) {
  EXPECT_TRUE(fold_norms(network_in_double(kPerceptual).spec).norms.empty());
}

// The resolved configuration gives the same network, without what it was made from.
TEST(Features, TheResolvedConfigurationHoldsTheirLayers) {
  const TestNetwork network = network_in_double(kPerceptual);
  const std::string yaml = write_yaml(network.config);
  EXPECT_TRUE(has(yaml, "vgg.block.conv2", "vgg.safetensors"));
  EXPECT_EQ(yaml.find("softmax_cross_entropy"), std::string::npos);
  ConfigNode again = read_yaml(yaml, "again.yaml");
  ConfigErrors errors("again.yaml");
  const NetSpec spec = read_net_spec(again, errors);
  errors.raise_if_any();
  EXPECT_EQ(write_yaml(again), yaml);
  ASSERT_EQ(spec.layers.size(), network.spec.layers.size());
  for (size_t i = 0; i < spec.layers.size(); ++i) {
    EXPECT_EQ(spec.layers[i].parameter_prefix, network.spec.layers[i].parameter_prefix);
    EXPECT_EQ(spec.layers[i].frozen, network.spec.layers[i].frozen);
  }
}

TEST(Features, SayWhatIsWrong) {
  const auto with = [](const std::string& a, const std::string& b) {
    return mistake_in(changed(kPerceptual, {{a, b}}));
  };
  const std::string seen = "network: vgg, inputs: conv2, until: block";
  EXPECT_TRUE(has(with(seen, "network: vg, inputs: conv2, until: block"),
                  "test.yaml:21:", "layer seen (features): network",
                  "there is no features network 'vg' (did you mean 'vgg'?)", "there are: vgg"));
  EXPECT_TRUE(has(with(seen, "network: vgg, inputs: conv2, until: relu2"), "test.yaml:21:",
                  "until: the features network 'vgg' has no layer 'relu2' (did you mean 'relu1'?)",
                  "there are: block"));
  EXPECT_TRUE(has(with(seen, "network: vgg, inputs: conv2, until: end"), "has no layer 'end'"));
  EXPECT_TRUE(has(with(seen, "inputs: conv2"), "layer seen (features)", "network"));
  EXPECT_TRUE(has(with(seen, seen + ", frozen: true"), "unknown key 'frozen'"));
  EXPECT_TRUE(has(with(seen, "network: vgg, inputs: nowhere, until: block"), "nowhere"));
  EXPECT_TRUE(has(with("    weights: vgg.safetensors\n", ""), "features: vgg: ", "weights"));
  EXPECT_TRUE(has(with("  vgg:\n", "  v.g:\n"), "features"));
  EXPECT_TRUE(has(
      with("    weights: vgg.safetensors\n", "    weights: vgg.safetensors\n    config: b.yaml\n"),
      "test.yaml:5:", "features: vgg: expected either 'config'"));
  EXPECT_TRUE(
      has(mistake_in("features: {vgg: {weights: a, config: [b]}}\nlayers: [{type: features, "
                     "network: vgg}, {type: mse_loss}]\n"),
          "test.yaml:3:38: features: vgg: config: expected the name of a YAML file"));
  EXPECT_TRUE(has(with("{name: tanh, type: tanh}", "{name: vgg.tanh, type: tanh}"),
                  "layer vgg.tanh: the features network 'vgg'", "rename"));
  EXPECT_TRUE(has(with("out_channels: 3, kernel: 3, padding: 1}\n      - {name: bn1",
                       "out_chanels: 3, kernel: 3, padding: 1}\n      - {name: bn1"),
                  "layer seen.conv1 (conv2d)", "out_chanels"));
  // Both apply conv1, to 2 and to 3 channels.
  EXPECT_TRUE(has(with(seen, "network: vgg, inputs: tanh, until: block"),
                  "layer wanted.conv1 (conv2d): shares its weight with layer seen.conv1", "3x3x3x3",
                  "3x2x3x3"));
  EXPECT_TRUE(has(mistake_in("features: {vgg: {weights: a, layers: [{type: relu}]}}\nlayers: "
                             "[{type: flatten}, {type: linear, out_features: 4}, "
                             "{type: softmax_cross_entropy}]\n"),
                  "features: vgg: no layer applies it"));
  EXPECT_TRUE(has(mistake_in("features: [vgg]\nlayers: [{type: flatten}, {type: linear, "
                             "out_features: 4}, {type: softmax_cross_entropy}]\n"),
                  "features: expected networks by their names"));
  EXPECT_TRUE(has(mistake_in("layers: [{type: flatten}, {type: linear, out_features: 4, features: "
                             "vgg.fc}, {type: softmax_cross_entropy}]\n"),
                  "there is no features network 'vgg'", "none"));
  EXPECT_TRUE(has(mistake_in(changed(kPerceptual, {{"- {name: pool, type: avg_pool2d, kernel: 2}",
                                                    "- {type: features, network: vgg}"}})),
                  "there is no features network 'vgg'", "none"));
}

}  // namespace
}  // namespace duet
