// Layers that are frozen, and features networks: a perceptual loss on pairs of pictures.
#include <gtest/gtest.h>

#include <cmath>

#include "core/error.h"
#include "data/format/image_file.h"
#include "support/trainer_process.h"
#include "train/checkpoint/safetensors.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

TEST(TrainerFrozen, AFrozenTrunkKeepsTheWeightsThatTheTrainingBeganWith) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out run --quiet"), kExitDone);
  const std::string tuned =
      "--config tiny.yaml --out tuned --init-from run --init-skip fc1 "
      "--set layers.conv1.frozen=true ";
  EXPECT_OUTCOME(folder.run(tuned + "--epochs 1"), kExitDone, "40 frozen",
                 "parameters: 620, of which 40 are frozen");
  const auto saved = tensors(folder / "run/checkpoints/best.safetensors");
  const auto first = tensors(folder / "tuned/checkpoints/last.safetensors");
  for (const char* name : {"conv1.weight", "conv1.bias"}) {
    EXPECT_EQ(first.at(name), saved.at(name)) << name;
    EXPECT_FALSE(first.contains(std::string("optimizer.exp_avg.") + name)) << name;
  }
  EXPECT_TRUE(first.contains("optimizer.exp_avg.fc1.weight"));
  EXPECT_EQ(nlohmann::json::parse(folder.read("tuned/run.json"))["frozen_parameters"], 40);
  // A run that goes on has it as one that was never interrupted.
  EXPECT_OUTCOME(folder.run("--config tuned/config.yaml --resume last --out tuned --epochs 2"),
                 kExitDone, "resuming from");
  const auto second = tensors(folder / "tuned/checkpoints/last.safetensors");
  EXPECT_EQ(second.at("conv1.weight"), saved.at("conv1.weight"));
  EXPECT_NE(second.at("fc1.weight"), first.at("fc1.weight"));
  EXPECT_OUTCOME(folder.run(changed(tuned, {{"--out tuned", "--out whole"}}) + "--epochs 2"),
                 kExitDone);
  EXPECT_EQ(tensors(folder / "whole/checkpoints/last.safetensors"), second);
  // To freeze is another training, but no other evaluation.
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --resume last --out tuned --epochs 3"), kExitUsage,
                 "layers.conv1.frozen: true -> (none)");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --resume last --out tuned --epochs 3 "
                            "--allow-changes"),
                 kExitDone, "the optimizer's state begins anew");
  EXPECT_NE(tensors(folder / "tuned/checkpoints/last.safetensors").at("conv1.weight"),
            saved.at("conv1.weight"));
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --evaluate whole/checkpoints/last.safetensors"),
                 kExitDone);
  EXPECT_OUTCOME(folder.run("evaluate --checkpoint whole"), kExitDone);
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --dry-run --set layers.conv1.frozen=true "
                            "--set layers.fc1.frozen=true"),
                 kExitUsage, "layer conv1", "there is nothing to train");
}

constexpr const char* kDoublingBySeer = R"(
name: doubling
backend: cpu
data:
  dataset: image_pairs
  folder: ./
  batch: 4
  validation: val
  channels: 1
  patch: 6
  degrade: {type: bicubic, scale: 2}
train: {epochs: 6}
optimizer: {type: adam, learning_rate: 0.01}
features:
  seer: {config: seer.yaml, weights: seer.safetensors}
layers:
  - {name: conv1, type: conv2d, out_channels: 8, kernel: 3, padding: 1}
  - {name: tanh1, type: tanh}
  - {name: conv2, type: conv2d, out_channels: 4, kernel: 3, padding: 1}
  - {name: shuffle, type: pixel_shuffle, scale: 2}
  - {name: seen, type: features, network: seer, inputs: shuffle, until: pool}
  - {name: wanted, type: features, network: seer, inputs: targets, until: pool}
  - {name: perceptual, type: mse_loss, inputs: [seen, wanted]}
)";

// Of which pool halves pictures twice as large, and needs 8 pixels.
constexpr const char* kSeer = R"(
layers:
  - {name: conv1, type: conv2d, out_channels: 6, kernel: 5}
  - {name: relu1, type: relu}
  - {name: pool, type: max_pool2d, kernel: 4}
  - {name: flatten, type: flatten}
  - {name: fc, type: linear, out_features: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

class TrainerFeatures : public testing::Test {
 protected:
  TrainerFeatures() {
    folder_.write("net.yaml", kDoublingBySeer);
    folder_.write("seer.yaml", kSeer);
    for (int i = 0; i < 3; ++i) folder_.write("train/" + std::to_string(i) + ".png", waves(36, i));
    folder_.write("val/a.png", waves(24, 5));
    folder_.write("tiny.png", waves(3, 6));
    for (int i = 0; i < 150; ++i) weight_.push_back(0.4f * std::sin(0.7f * static_cast<float>(i)));
    write("seer.safetensors", {6, 1, 5, 5}, weight_);
  }
  // Weights of conv1, a bias, and tensors that nobody wants.
  void write(const std::string& name, const std::vector<int64_t>& shape,
             const std::vector<float>& weight, const std::string& bias = "conv1.bias") const {
    safetensors::write(folder_ / name, {{"conv1.weight", DType::kFloat32, shape, weight.data()},
                                        {bias, DType::kFloat32, {6}, bias_.data()},
                                        {"fc.bias", DType::kFloat32, {3}, bias_.data()}});
  }
  static std::string bytes_of(const std::vector<float>& values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
  static std::string waves(int64_t side, int phase) {
    Image image{side, side, 1, {}};
    for (int64_t i = 0; i < side * side; ++i) {
      const double value = std::sin(0.4 * static_cast<double>(i % side) + phase) *
                           std::cos(0.3 * static_cast<double>(i / side));
      image.pixels.push_back(static_cast<uint8_t>(std::lround(127.5 + 100.0 * value)));
    }
    return png_of(image);
  }
  Outcome with(const std::string& set) const {
    return folder_.run("--config net.yaml --dry-run --set " + set);
  }

  const TrainerFolder folder_;
  std::vector<float> weight_;
  const std::vector<float> bias_ = {0.1f, -0.1f, 0.2f, 0.0f, 0.05f, -0.2f};
};

TEST_F(TrainerFeatures, APerceptualLossFallsAndTheFeaturesStay) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run"), kExitDone,
                 "parameters: 528, of which 156 are frozen", "seen.conv1", "wanted.conv1");
  const auto epochs = metrics(folder_, "run", "epoch");
  ASSERT_EQ(epochs.size(), 6u);
  EXPECT_LT(epochs[5]["val_loss"], 0.7 * epochs[0]["val_loss"].get<double>());
  EXPECT_LT(epochs[5]["train_loss"], 0.7 * epochs[0]["train_loss"].get<double>());
  const auto saved = tensors(folder_ / "run/checkpoints/last.safetensors");
  size_t of_features = 0;
  for (const auto& [name, values] : saved) of_features += has(name, "seer.") ? 1 : 0;
  EXPECT_EQ(of_features, 2u);
  EXPECT_EQ(saved.at("seer.conv1.weight"), bytes_of(weight_));
  EXPECT_EQ(saved.at("seer.conv1.bias"), bytes_of(bias_));
  // The checkpoint has all that is needed from here on.
  fs::remove(folder_ / "seer.safetensors");
  fs::remove(folder_ / "seer.yaml");
  EXPECT_OUTCOME(folder_.run("evaluate --checkpoint run"), kExitDone);
  // What the network makes of a picture, of which the features network could make nothing.
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --out made tiny.png val/a.png tiny.png"),
                 kExitUsage, "tiny.png");
  EXPECT_OUTCOME(folder_.run("predict --checkpoint run --out made tiny.png val/a.png"), kExitDone);
  EXPECT_EQ(read_png(folder_.read("made/tiny.png")).height, 6);
  EXPECT_EQ(read_png(folder_.read("made/a.png")).height, 48);
  EXPECT_OUTCOME(folder_.run("--config run/config.yaml --resume last --out run --epochs 7"),
                 kExitDone, "resuming from");
  EXPECT_EQ(tensors(folder_ / "run/checkpoints/last.safetensors").at("seer.conv1.weight"),
            bytes_of(weight_));
}

TEST_F(TrainerFeatures, AResumedRunHasTheSameBits) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out part --epochs 1"), kExitDone);
  EXPECT_OUTCOME(folder_.run("--config net.yaml --resume last --out part"), kExitDone);
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out whole"), kExitDone);
  EXPECT_EQ(tensors(folder_ / "part/checkpoints/last.safetensors"),
            tensors(folder_ / "whole/checkpoints/last.safetensors"));
  // Weights to begin with are those of the network that is trained.
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out again --epochs 1 --init-from part "
                             "--set features.seer.weights=part"),
                 kExitUsage, "features: seer: weights",
                 "its weights do not fit: 'conv1.bias' is 8 float32 there, but 6");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out again --epochs 1 --init-from part"),
                 kExitDone);
  EXPECT_EQ(tensors(folder_ / "again/checkpoints/last.safetensors").at("seer.conv1.weight"),
            bytes_of(weight_));
}

TEST_F(TrainerFeatures, WrongInputIsLocated) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitDone);
  EXPECT_OUTCOME(with("features.seer.weights=absent.safetensors"), kExitUsage,
                 "command line: features: seer: weights absent.safetensors: there is no such file");
  fs::rename(folder_ / "seer.safetensors", folder_ / "kept");
  for (const char* how : {"--dry-run", "--out run"}) {
    EXPECT_OUTCOME(
        folder_.run(std::string("--config net.yaml ") + how), kExitUsage,
        "net.yaml:15:38: features: seer: weights seer.safetensors: there is no such file");
  }
  write("seer.safetensors", {6, 3, 5, 5}, std::vector<float>(450));
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitUsage, "net.yaml:15:38",
                 "'conv1.weight' is 6x3x5x5 float32 there, but 6x1x5x5 float32 here");
  write("seer.safetensors", {6, 1, 5, 5}, weight_, "conv2.bias");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitUsage, "net.yaml:15:38",
                 "has no conv1.bias; it has: ");
  folder_.write("seer.safetensors", "no weights");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitUsage, "net.yaml:15:38");
  std::vector<float> infinite = weight_;
  infinite[7] = INFINITY;
  write("seer.safetensors", {6, 1, 5, 5}, infinite);
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run"), kExitUsage,
                 "'conv1.weight' holds values that are not finite");
  fs::rename(folder_ / "kept", folder_ / "seer.safetensors");
  EXPECT_OUTCOME(with("features.seer.config=absent.yaml"), kExitUsage,
                 "command line: features: seer: config: absent.yaml");
  EXPECT_OUTCOME(with("layers.seen.until=relu7"), kExitUsage, "has no layer 'relu7'",
                 "there are: conv1, fc, flatten, pool, relu1");
  EXPECT_OUTCOME(with("layers.seen.network=eye"), kExitUsage, "no features network 'eye'");
  EXPECT_OUTCOME(with("layers.wanted.until=relu1"), kExitUsage, "layer perceptual (mse_loss)");
  folder_.write("seer.yaml", "layers:\n  - {name: conv1, type: sequential}\n");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitUsage,
                 "net.yaml:15:18: features: seer: config: seer.yaml:2:5",
                 "expected 'layers', a list of layers");
  folder_.write("seer.yaml", "name: nothing\n");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --dry-run"), kExitUsage, "seer.yaml:1:1",
                 "expected 'layers', a list of layers");
  EXPECT_EQ(folder_.run("evaluate --checkpoint run").code, kExitUsage);
}

}  // namespace
}  // namespace duet
