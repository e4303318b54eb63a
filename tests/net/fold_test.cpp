#include "net/fold.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/network.h"

namespace duet {
namespace {

// A grouped convolution without a bias before pooling, one with, in a residual whose shortcut is one
// too, and a normalisation that cannot be folded because another layer reads the convolution.
constexpr const char* kLayers = R"(
data: {dataset: synthetic_images}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, groups: 2, bias: false}
  - {name: norm1, type: batch_norm2d, eps: 0.01}
  - {name: relu1, type: relu}
  - {name: pool1, type: max_pool2d, kernel: 2}
  - {name: conv2, type: conv2d, out_channels: 6, kernel: 1}
  - {name: norm2, type: batch_norm2d, affine: false}
  - {name: relu2, type: relu}
  - {name: conv3, type: conv2d, out_channels: 6, kernel: 1, inputs: pool1}
  - {name: norm3, type: batch_norm2d}
  - {name: sum, type: add, inputs: [relu2, norm3]}
  - {name: conv4, type: conv2d, out_channels: 6, kernel: 1}
  - {name: norm4, type: batch_norm2d}
  - {name: sum2, type: add, inputs: [norm4, conv4]}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

// The outputs for images of any values, with weights of any values.
class Predicting {
 public:
  Predicting(const std::vector<ResolvedLayer>& layers)
      : layers_(without_losses(layers)), weights_(layers_, 7, Device::kCpu) {}

  Weights& weights() { return weights_; }
  void spread_weights() {
    double place = 0;
    for (const Parameter& parameter : weights_.parameters()) {
      std::vector<float> values(static_cast<size_t>(parameter.spec.desc.elements()));
      const bool positive = parameter.name.ends_with("running_var");
      for (float& value : values) {
        const double wave = std::sin(place += 1.7);
        value = static_cast<float>(positive ? 1.2 + wave : wave);
      }
      weights_.write(parameter, values);
    }
  }
  std::vector<double> outputs() {
    Context context(Device::kCpu);
    Net net(layers_, weights_, context, Net::Mode::kInference);
    for (int64_t i = 0; i < net.input().elements(); ++i) {
      net.input().data<double>()[i] = std::cos(0.3 * static_cast<double>(i));
    }
    net.infer();
    const double* y = net.output().data<double>();
    return {y, y + net.output().elements()};
  }

 private:
  std::vector<ResolvedLayer> layers_;
  Weights weights_;
};

std::vector<ResolvedLayer> resolved(const NetSpec& spec) {
  ConfigErrors errors("");
  std::vector<ResolvedLayer> layers =
      resolve(spec, labelled_images({{2, 2, 10, 9}, DType::kFloat64}, 3), errors, false);
  errors.raise_if_any();
  return layers;
}

TEST(FoldNorms, OutputsAreTheSame) {
  for (const std::string layout : {"nchw", "nhwc"}) {
    const TestNetwork network =
        make_network("backend: cpu_reference\nlayout: " + layout + kLayers, {{2, 2, 10, 9}}, 3);
    const FoldedNet folded = fold_norms(network.spec);
    Predicting plain(resolved(network.spec)), other(resolved(folded.spec));
    plain.spread_weights();
    fold_weights(folded, plain.weights(), other.weights());
    const std::vector<double> expected = plain.outputs(), found = other.outputs();
    ASSERT_EQ(found.size(), 6u);
    for (size_t i = 0; i < found.size(); ++i) {
      // Folded weights are float32.
      EXPECT_NEAR(found[i], expected[i], 1e-5 * (1 + std::abs(expected[i]))) << layout << " " << i;
    }
  }
}

TEST(FoldNorms, TakesTheLayersAwayAndLetsBlocksForm) {
  const TestNetwork network =
      make_network(std::string("backend: cpu") + kLayers, {{2, 2, 10, 9}}, 3);
  const FoldedNet folded = fold_norms(network.spec);
  ASSERT_EQ(folded.norms.size(), 3u);
  EXPECT_EQ(folded.norms[0].convolution, "conv1");
  EXPECT_EQ(folded.norms[0].norm, "norm1");
  EXPECT_EQ(folded.norms[0].eps, 0.01);
  EXPECT_EQ(folded.norms[2].norm, "norm3");
  std::vector<std::string> names;
  for (const ResolvedLayer& layer : resolved(folded.spec)) {
    if (layer.layer->type() != "split") names.push_back(layer.name);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"conv1+relu1+pool1", "conv2", "relu2", "conv3", "sum",
                                             "conv4", "norm4", "sum2", "flatten", "fc", "loss"}));
}

}  // namespace
}  // namespace duet
