// Which arms a comparison has, and that they train the same task.
#include "compare/arms.h"

#include <gtest/gtest.h>

#include <fstream>

#include "core/error.h"
#include "device/device.h"
#include "net/yaml.h"
#include "support/small_comparison.h"
#include "support/text.h"

namespace duet {
namespace {

// What reading the arms says is wrong; empty if nothing is.
std::string message_of_arms(const ArmsOptions& options, int expected_code = kExitUsage) {
  try {
    read_arms(options);
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), expected_code) << error.what();
    return error.what();
  }
  return "";
}

TEST(Arms, AreFamiliesIdsAndFiles) {
  const ComparisonFolder folder;
  folder.write("mine.yaml", {{"backend: cpu", "backend: cpu_reference\nlayout: nhwc"},
                             {"type: linear", "type: linear, backend: cpu_blas"}});
  const auto arms =
      read_arms(folder.options({"cpu", "cpu_reference", "cpu", (folder / "mine.yaml").string()}));
  ASSERT_EQ(arms.size(), 4u);
  EXPECT_EQ(arms[0].name, "cpu");
  EXPECT_EQ(arms[0].layers[0].passes[0].id, "cpu_blas");
  EXPECT_EQ(arms[1].layers[0].passes[0].id, "cpu_reference");
  EXPECT_EQ(arms[2].name, "cpu#2");
  EXPECT_EQ(arms[3].name, "mine");
  EXPECT_EQ(arms[3].layers[0].passes[0].id, "cpu_reference");
  EXPECT_EQ(arms[3].layers.end()[-2].passes[0].id, "cpu_blas");
  EXPECT_TRUE(has(arms[3].config, "layout: nhwc"));
}

TEST(Arms, DefaultToWhatThisMachineHas) {
  const ComparisonFolder folder;
  const auto arms = read_arms(folder.options({}));
  ASSERT_EQ(arms.size(), 2u);
  EXPECT_EQ(arms[0].name, gpu_available() ? "custom" : "cpu_blas");
  EXPECT_EQ(arms[1].name, gpu_available() ? "cudnn" : "cpu_reference");
}

TEST(Arms, SettingsAreForAllOfThem) {
  const ComparisonFolder folder;
  folder.write("mine.yaml", {});
  ArmsOptions options = folder.options({"cpu_blas", (folder / "mine.yaml").string()});
  options.assignments = {"data.batch=8"};
  options.epochs = 3;
  for (const Arm& arm : read_arms(options)) {
    EXPECT_EQ(arm.spec.data.batch, 8);
    EXPECT_EQ(arm.spec.train.epochs, 3);
    EXPECT_EQ(arm.setup(4, 7).spec.data.batch, 4);
    EXPECT_EQ(arm.setup(4, 7).spec.seed, 7u);
  }
}

TEST(Arms, KeepTheNetworkThatWasRead) {
  const ComparisonFolder folder;
  const std::vector<Arm> arms = read_arms(folder.options({"cpu_blas", "cpu_reference"}));
  for (const Arm& arm : arms) std::ofstream(arm.options.config) << "layers: [{type: tanh}]";
  for (const Arm& arm : arms) {
    EXPECT_EQ(write_yaml(arm.setup().config), arm.config);
    EXPECT_EQ(arm.setup(4).layers.size(), arm.layers.size());
  }
}

TEST(Arms, SayThemselvesWhatComputes) {
  const ComparisonFolder folder;
  ArmsOptions options = folder.options({"cpu_blas", "cpu"});
  options.assignments = {"backend=cpu_reference"};
  EXPECT_TRUE(has(message_of_arms(options), "--set backend=cpu_reference: the arms say"));
  options.assignments = {"layers.conv1.backend=cpu_reference"};  // of one layer: in all arms
  EXPECT_EQ(message_of_arms(options), "");
}

TEST(Arms, MustTrainTheSameTask) {
  const ComparisonFolder folder;
  const struct {
    std::vector<std::pair<std::string, std::string>> changes;
    std::vector<std::string> parts;
  } cases[] = {
      {{{"train_count: 64", "train_count: 32"}}, {"data.train_count is '32'", "'64' in arm 'cpu'"}},
      {{{"batch: 16", "batch: 8"}}, {"data.batch is '8'"}},
      {{{"name: tiny", "name: tiny\nseed: 2"}}, {"seed is '2', but '1'"}},
      {{{"out_channels: 4", "out_channels: 5"}}, {"layers.conv1.out_channels is '5'"}},
      {{{"type: adam", "type: sgd"}}, {"optimizer.type is 'sgd'"}},
      {{{"epochs: 2", "epochs: 3"}}, {"train.epochs is '3'"}},
      {{{"type: relu", "type: tanh"}}, {"the list of layers", "relu1 (tanh)"}},
      {{{"  - {name: relu1, type: relu}\n", ""}}, {"the list of layers", "number of parameters"}},
      // Both mistakes at once.
      {{{"batch: 16", "batch: 8"}, {"type: adam", "type: sgd"}},
       {"data.batch", "optimizer.type", "differ only in how"}},
  };
  for (const auto& c : cases) {
    folder.write("other.yaml", c.changes);
    const std::string message =
        message_of_arms(folder.options({"cpu", (folder / "other.yaml").string()}));
    for (const std::string& part : c.parts) {
      EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
    }
    EXPECT_TRUE(has(message, "other.yaml"));
  }
  // The same number written otherwise, and what only says how.
  folder.write("other.yaml", {{"learning_rate: 0.01", "learning_rate: 1e-2"},
                              {"backend: cpu", "backend: cpu_reference\nfuse: false"},
                              {"epochs: 2", "epochs: 2, log_every: 3"},
                              {"kernel: 3", "kernel: [3, 3]"},
                              {"name: tiny", "name: other\nworkspace_limit_mib: 7"}});
  EXPECT_EQ(message_of_arms(folder.options({"cpu", (folder / "other.yaml").string()})), "");
}

TEST(Arms, TellTheMistakesOfAll) {
  const ComparisonFolder folder;
  folder.write("one.yaml", {{"kernel: 3", "kernel: 9"}});
  folder.write("two.yaml", {{"type: relu", "type: relo"}});
  const std::string message = message_of_arms(
      folder.options({(folder / "one.yaml").string(), (folder / "two.yaml").string()}));
  EXPECT_TRUE(has(message, "one.yaml:7", "9x9", "two.yaml:8", "'relo'"));
  // A mistake of the common file is told once.
  ArmsOptions options = folder.options({"cpu_blas", "cpu_reference"});
  options.assignments = {"layers.conv1.kernel=9"};
  const std::string common = message_of_arms(options);
  EXPECT_EQ(common.find("9x9"), common.rfind("9x9")) << common;
}

TEST(Arms, NeedAGpuForItsFamilies) {
  if (gpu_available()) GTEST_SKIP() << "needs a machine without a GPU";
  const ComparisonFolder folder;
  const std::string message = message_of_arms(folder.options({"custom", "cpu"}), kExitUnsupported);
  EXPECT_TRUE(has(message, "arm 'custom' needs a GPU", "--a cpu_blas --b cpu_reference"));
}

}  // namespace
}  // namespace duet
