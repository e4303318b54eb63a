// Grad-CAM of a network trained here: what it is made of, against differences of the class's output.
#include "train/evaluate/explain_prediction.h"

#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "support/network.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

// Several readers of a layer's output, batch normalisation on both sides of it, dropout.
constexpr const char* kBeforeMaps = R"(
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3, bias: false}
  - {name: norm1, type: batch_norm2d}
  - {name: relu1, type: relu}
  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, padding: 1}
  - {name: sum, type: add, inputs: [conv2, relu1]}
  - {name: tanh1, type: tanh}
)";
constexpr const char* kBehindMaps = R"(
  - {name: conv3, type: conv2d, out_channels: 5, kernel: 3, stride: 2, LINK}
  - {name: norm3, type: batch_norm2d}
  - {name: tanh3, type: tanh}
  - {name: pool3, type: global_avg_pool2d}
  - {name: flatten, type: flatten}
  - {name: drop, type: dropout}
  - {name: pool4, type: avg_pool2d, kernel: 3, inputs: HEAD}
  - {name: flatten4, type: flatten}
  - {name: both, type: concat, inputs: [drop, flatten4]}
  - {name: fc1, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";

std::string small_head(const std::string& layout) {
  return "name: tiny\nbackend: cpu\nlayout: " + layout +
         "\ndata: {dataset: synthetic_images, batch: 16, size: 8, classes: 4, train_count: 64, "
         "validation_count: 32}\ntrain: {epochs: 2}\noptimizer: {type: adam, learning_rate: 0.01}\n"
         "layers:";
}

// The network from tanh1's output on, in double, as it evaluates.
class BehindMaps {
 public:
  explicit BehindMaps(const std::string& checkpoint)
      : network_(make_network(changed("backend: cpu_reference\ndata: {dataset: synthetic_images, "
                                      "batch: 1}\nlayers:" +
                                          std::string(kBehindMaps),
                                      {{"LINK", "inputs: images"}, {"HEAD", "images"}}),
                              {{1, 4, 6, 6}, DType::kFloat64}, 4)),
        layers_(without_losses(network_.layers)),
        context_(Device::kCpu),
        weights_(layers_, 1, Device::kCpu) {
    const Trained trained = open_to_explain({.checkpoint = checkpoint});
    const Weights all = load_weights(trained.checkpoint, trained.setup, Device::kCpu,
                                     {.config = write_yaml(trained.setup.config)});
    for (const Parameter& parameter : weights_.parameters()) {
      for (const Parameter& each : all.parameters()) {
        if (each.name == parameter.name) weights_.write(parameter, all.read(each));
      }
    }
    net_.emplace(layers_, weights_, context_, Net::Mode::kInference);
  }

  double output(const std::vector<double>& maps, size_t number) {
    std::copy(maps.begin(), maps.end(), net_->input().data<double>());
    net_->infer();
    return net_->output().data<double>()[number];
  }

 private:
  TestNetwork network_;
  std::vector<ResolvedLayer> layers_;
  Context context_;
  Weights weights_;
  std::optional<Net> net_;
};

TEST(ExplainPrediction, GradientsEqualFiniteDifferences) {
  for (const std::string layout : {"nchw", "nhwc"}) {
    SCOPED_TRACE(layout);
    const TrainerFolder folder;
    folder.write("net.yaml", small_head(layout) + kBeforeMaps +
                                 changed(kBehindMaps, {{", LINK", ""}, {"HEAD", "tanh1"}}));
    EXPECT_OUTCOME(folder.run("--config net.yaml --out run --quiet"), kExitDone);
    const std::string checkpoint = folder / "run/checkpoints/last.safetensors";
    std::vector<uint8_t> image;
    for (int i = 0; i < 64; ++i) image.push_back(static_cast<uint8_t>(i * i * 7));
    BehindMaps rest(checkpoint);
    for (const size_t number : {0, 3}) {
      Trained trained = open_to_explain({.checkpoint = checkpoint});
      const Explanation found = explain_prediction(trained, normalised_as_trained(trained), image,
                                                   std::to_string(number), "tanh1");
      EXPECT_EQ(found.number, number);
      ASSERT_EQ(found.gradients.values.size(), 4u * 6 * 6);
      FeatureMaps slopes = found.features;
      for (size_t i = 0; i < slopes.values.size(); ++i) {
        std::vector<double> maps = found.features.values;
        maps[i] += 1e-5;
        const double above = rest.output(maps, number);
        maps[i] -= 2e-5;
        slopes.values[i] = (above - rest.output(maps, number)) / 2e-5;
        EXPECT_NEAR(found.gradients.values[i], slopes.values[i],
                    1e-5 * (1 + std::abs(slopes.values[i])))
            << i;
      }
      const HeatMap expected = grad_cam(found.features, slopes);
      for (size_t i = 0; i < expected.values.size(); ++i) {
        EXPECT_NEAR(found.map.values[i], expected.values[i], 1e-5) << i;
      }
      const std::vector<double> outputs = [&] {
        std::vector<double> all;
        for (size_t k = 0; k < 4; ++k) all.push_back(rest.output(found.features.values, k));
        return all;
      }();
      double sum = 0;
      for (const double output : outputs) sum += std::exp(output - outputs[number]);
      EXPECT_NEAR(found.confidence, 1 / sum, 1e-5);
    }
  }
}

}  // namespace
}  // namespace duet
