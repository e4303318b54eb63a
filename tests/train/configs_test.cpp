// Every file in configs/ is read, resolved by every family that this build has, and says what the
// network is.
#include <gtest/gtest.h>

#include <filesystem>

#include "net/table.h"
#include "test_paths.h"
#include "train/setup.h"

namespace duet {
namespace {

std::vector<std::filesystem::path> config_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(DUET_SOURCE_DIR "/configs")) {
    files.push_back(entry.path());
  }
  return files;
}

TEST(Configs, AllResolve) {
  std::vector<std::string> backends = {"cpu"};
  if (built_with_cuda()) backends.insert(backends.end(), {"custom", "cudnn"});
  for (const auto& file : config_files()) {
    for (const std::string& backend : backends) {
      SetupOptions options{.config = file.string()};
      // mixed.yaml is about its own choices, all of which need a GPU
      if (file.filename() != "mixed.yaml") options.backend = backend;
      if (file.filename() == "mixed.yaml" && !built_with_cuda()) continue;
      duet::Setup setup;
      ASSERT_NO_THROW(setup = read_setup(options)) << file << " " << backend;
      EXPECT_EQ(file.stem(), setup.spec.name);
      for (const ResolvedLayer& layer : setup.layers) {
        for (const PassChoice& choice : layer.passes) {
          if (options.backend && !choice.shared) {
            EXPECT_EQ(to_string(family_of(choice.id)), backend) << file << " " << layer.name;
          }
        }
      }
    }
  }
}

int64_t parameters_of(const std::string& name) {
  const duet::Setup setup = read_setup(
      {.config = std::string(DUET_SOURCE_DIR "/configs/") + name + ".yaml", .backend = "cpu"});
  return parameter_count(setup.layers);
}

TEST(Configs, ParameterCounts) {
  EXPECT_EQ(parameters_of("fashion_mnist_cnn"), 896522);
  EXPECT_EQ(parameters_of("mlp_mnist"), 784 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(parameters_of("leaky_relu_mlp_fashion"), 784 * 128 + 128 + 128 * 64 + 64 + 650);
  EXPECT_EQ(parameters_of("lenet5_fashion"), 61706);
  EXPECT_EQ(parameters_of("lenet5_mnist"), 61706);
  EXPECT_EQ(parameters_of("perceptron_points"), 6);
  EXPECT_EQ(parameters_of("mlp_xor"), 8 * 2 + 8 + 2 * 8 + 2);
  EXPECT_EQ(parameters_of("fashion_mnist_tuned"),
            9 * (64 + 64 * 128 + 2 * 128 * 128 + 128 * 256 + 2 * 256 * 256) +
                2 * (64 + 3 * 128 + 3 * 256) + 256 * 10 + 10);
  EXPECT_EQ(parameters_of("espcn"), 25 * 64 + 64 + 9 * 64 * 32 + 32 + 9 * 32 * 9 + 9);
  EXPECT_EQ(parameters_of("resnet18"), 11689512);
  EXPECT_EQ(parameters_of("vgg16"), 138357544);
  EXPECT_EQ(parameters_of("tiny_imagenet_cnn"),
            9 * (3 * 32 + 32 * 64 + 64 * 128) + 2 * 224 + 8192 * 512 + 512 + 512 * 200 + 200);
}

// The stem's with its pooling, and that of each block's body; a block's end is an add.
TEST(Configs, TheResidualNetworkIsFused) {
  const auto layers = [](const std::string& fuse) {
    std::vector<std::string> names;
    const duet::Setup setup =
        read_setup({.config = std::string(DUET_SOURCE_DIR "/configs/resnet_mnist.yaml"),
                    .backend = "cpu",
                    .assignments = {"fuse=" + fuse}});
    for (const ResolvedLayer& layer : setup.layers) {
      if (layer.layer->type().starts_with("batch_norm2d_relu")) names.push_back(layer.name);
    }
    return names;
  };
  EXPECT_EQ(layers("true"), (std::vector<std::string>{
                                "bn1+relu+maxpool", "layer1.0.bn1+layer1.0.relu1",
                                "layer2.0.bn1+layer2.0.relu1", "layer3.0.bn1+layer3.0.relu1"}));
  EXPECT_EQ(layers("false"), std::vector<std::string>{});
}

}  // namespace
}  // namespace duet
