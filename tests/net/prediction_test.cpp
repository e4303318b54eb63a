// NetMode::kGradients: what a network predicts, and gradients of that.
#include "net/prediction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "support/network.h"

namespace duet {
namespace {

// Batch normalisations of images, behind no convolution, of features, in blocks that the file names;
// layers that do nothing in evaluation; and a loss in the middle, whose layer leads nowhere else.
constexpr const char* kPredicting = R"(
data: {dataset: synthetic_images}
layers:
  - {name: norm0, type: batch_norm2d, eps: 0.01}
  - {name: drop0, type: dropout}
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, groups: 2, bias: false, padding: 1}
  - {name: norm1, type: batch_norm2d, affine: false}
  - {name: block1, type: batch_norm2d_relu, inputs: drop0, eps: 0.1}
  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, padding: 1}
  - {name: sum, type: add, inputs: [conv2, norm1]}
  - {name: block2, type: batch_norm2d_relu_pool, pool_kernel: 3, pool_stride: 2, eps: 0.2}
  - {name: flatten, type: flatten}
  - {name: aux, type: linear, out_features: 3}
  - {name: aux_loss, type: softmax_cross_entropy}
  - {name: norm2, type: batch_norm1d, inputs: flatten}
  - {name: fc1, type: linear, out_features: 7}
  - {name: block3, type: batch_norm1d_relu_softmax}
  - {name: fc2, type: linear, out_features: 3}
  - {name: block4, type: softmax_dropout, p: 0.3}
  - {name: drop2, type: dropout}
  - {name: loss, type: softmax_cross_entropy}
)";

std::vector<ResolvedLayer> with_image_gradients(const NetSpec& spec) {
  ConfigErrors errors("");
  std::vector<ResolvedLayer> layers = resolve(
      spec, labelled_images({{2, 2, 10, 9}, DType::kFloat64}, 3), errors, false, {"images"});
  errors.raise_if_any();
  return layers;
}

// Any values; variances are positive.
void spread_values(Weights* weights) {
  double place = 0;
  for (const Parameter& parameter : weights->parameters()) {
    std::vector<float> values(static_cast<size_t>(parameter.spec.desc.elements()));
    const bool positive = parameter.name.ends_with("running_var");
    for (float& value : values) {
      const double wave = std::sin(place += 1.7);
      value = static_cast<float>(positive ? 1.2 + wave : 0.7 * wave);
    }
    weights->write(parameter, values);
  }
}

std::vector<double> doubles_in(const Tensor& tensor) {
  return {tensor.data<double>(), tensor.data<double>() + tensor.elements()};
}

TEST(Prediction, GradientsAreThoseOfEvaluation) {
  for (const std::string settings :
       {"layout: nchw", "layout: nhwc", "layout: nchw\nfuse: false", "layout: nhwc\nfuse: false"}) {
    SCOPED_TRACE(settings);
    const TestNetwork network =
        make_network("backend: cpu_reference\n" + settings + kPredicting, {{2, 2, 10, 9}}, 3);
    const std::vector<ResolvedLayer> layers = with_image_gradients(prediction_of(network.spec));
    Context context(Device::kCpu);
    Weights weights(layers, 1, Device::kCpu);
    spread_values(&weights);
    const std::string buffers(weights.buffers().data<char>(), weights.buffers().bytes());
    Net net(layers, weights, context, Net::Mode::kGradients);
    Net plain(layers, weights, context, Net::Mode::kInference);
    ASSERT_TRUE(net.output_gradient());
    EXPECT_FALSE(plain.output_gradient() || plain.input_gradient());
    const std::vector<double> dy = {10, -20, 30, 40, 50, -60};
    std::copy(dy.begin(), dy.end(), net.output_gradient().data<double>());
    for (int64_t i = 0; i < net.input().elements(); ++i) {
      net.input().data<double>()[i] = std::cos(0.3 * static_cast<double>(i));
      plain.input().data<double>()[i] = net.input().data<double>()[i];
    }
    const uint64_t step = 3;
    net.forward(&step);
    const auto objective = [&] {
      plain.infer();
      double sum = 0;
      for (size_t i = 0; i < dy.size(); ++i) sum += dy[i] * plain.output().data<double>()[i];
      return sum;
    };
    objective();
    EXPECT_EQ(doubles_in(net.output()), doubles_in(plain.output()));
    net.backward(&step);
    double largest = 0;
    const auto expect_slopes = [&](const Tensor& tensor, const Tensor& gradient, int64_t stride,
                                   const std::string& name) {
      for (int64_t i = 0; i < tensor.elements(); i += stride) {
        double& value = tensor.data<double>()[i];
        const double kept = value;
        value = kept + 1e-5;
        const double above = objective();
        value = kept - 1e-5;
        const double slope = (above - objective()) / 2e-5;
        value = kept;
        EXPECT_NEAR(gradient.data<double>()[i], slope, 1e-8 + 1e-5 * std::abs(slope))
            << name << "[" << i << "]";
        largest = std::max(largest, std::abs(slope));
      }
    };
    expect_slopes(plain.input(), net.input_gradient(), 1, "images");
    EXPECT_GT(largest, 0.01);
    for (const Parameter& parameter : weights.parameters()) {
      if (!parameter.spec.trained()) continue;
      expect_slopes(weights.view(parameter), Weights::view(parameter, net.gradients()), 5,
                    parameter.name);
    }
    EXPECT_EQ(std::string(weights.buffers().data<char>(), weights.buffers().bytes()), buffers)
        << "statistics stay";
  }
}

TEST(Prediction, HasTheLayersThatLeadToIt) {
  const TestNetwork network =
      make_network(std::string("backend: cpu") + kPredicting, {{2, 2, 10, 9}}, 3);
  std::string lines;
  for (const LayerSpec& layer : prediction_of(network.spec).layers) {
    lines += layer.name + " " + std::to_string(layer.readers) + ",";
  }
  EXPECT_EQ(lines,
            "norm0 1,drop0 2,conv1 1,norm1 1,block1 1,conv2 1,sum 1,block2 1,flatten 1,norm2 1,"
            "fc1 1,block3 1,fc2 1,block4 1,drop2 0,");
}

}  // namespace
}  // namespace duet
