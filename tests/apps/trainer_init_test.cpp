// Fine-tuning: trainings that begin with the weights of a checkpoint.
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/trainer_process.h"
#include "train/checkpoint/safetensors.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A run of the tiny network in "run", and another of the same layers but for six classes.
class InitFrom : public testing::Test {
 protected:
  InitFrom() {
    EXPECT_OUTCOME(folder_.run("--config tiny.yaml --out run --quiet"), kExitDone);
    folder_.write(
        "six.yaml",
        changed(kTinyNetwork, {{"classes: 4", "classes: 6"},
                               {"out_features: 4", "out_features: 6"},
                               {"adam, learning_rate: 0.01", "sgd, learning_rate: 1e-30"}}));
  }
  Outcome train(const std::string& arguments, const std::string& config = "six.yaml") const {
    return folder_.run("--config " + config + " --epochs 1 " + arguments);
  }
  // The values of a parameter that training hardly moves.
  std::string weights(const std::string& run, const std::string& name) const {
    return tensors(folder_ / (run + "/checkpoints/last.safetensors")).at(name);
  }
  json run_json(const std::string& run) const {
    return json::parse(folder_.read(run + "/run.json"));
  }

  const TrainerFolder folder_;
  const std::string best_ = "run/checkpoints/best.safetensors";
};

TEST_F(InitFrom, TakesTheWeightsThatFit) {
  EXPECT_OUTCOME(train("--out tuned --init-from run --init-skip fc1"), kExitDone,
                 "begins with the weights of " + best_ + ", but for fc1.weight, fc1.bias");
  EXPECT_OUTCOME(train("--out plain"), kExitDone);
  const auto saved = tensors(folder_ / best_);
  for (const char* name : {"conv1.weight", "conv1.bias"}) {
    EXPECT_EQ(weights("tuned", name), saved.at(name)) << name;
    EXPECT_NE(weights("plain", name), saved.at(name)) << name;
  }
  EXPECT_EQ(weights("tuned", "fc1.weight"), weights("plain", "fc1.weight"));
  const json expected = {{"file", best_},
                         {"skipped", {"fc1.weight", "fc1.bias"}},
                         {"missing", json::array()},
                         {"unused", json::array()}};
  EXPECT_EQ(run_json("tuned")["init_from"], expected);
  EXPECT_FALSE(run_json("plain").contains("init_from"));
  // Still said of a run that goes on, which does not begin again.
  fs::remove_all(folder_ / "run");
  EXPECT_OUTCOME(folder_.run("--config six.yaml --epochs 2 --resume last --out tuned"), kExitDone,
                 "resuming from");
  EXPECT_EQ(run_json("tuned")["init_from"], expected);
  EXPECT_OUTCOME(folder_.run("--config tuned/config.yaml --epochs 3 --resume last --out tuned "
                             "--set train.init_from=gone"),
                 kExitDone);
}

TEST_F(InitFrom, IsAKeyOfTheConfigurationToo) {
  folder_.write("keys.yaml",
                changed(folder_.read("six.yaml"),
                        {{"train: {epochs: 2}", "train: {epochs: 2, init_from: " + best_ +
                                                    ", init_skip: [fc1.weight, fc1.bias]}"}}));
  EXPECT_OUTCOME(train("--out tuned", "keys.yaml"), kExitDone);
  EXPECT_EQ(weights("tuned", "conv1.weight"), tensors(folder_ / best_).at("conv1.weight"));
  // The command line wins.
  EXPECT_OUTCOME(train("--out none --init-from none", "keys.yaml"), kExitUsage,
                 "train.init_from: none: there is no such file or folder");
}

TEST_F(InitFrom, ADryRunRefusesWhatTheRunWould) {
  folder_.write("text.safetensors", "no weights");
  for (const char* from : {"none", "text.safetensors", "run"}) {
    const std::string option = std::string("--init-from ") + from;
    const Outcome real = train("--quiet --out tuned " + option), dry = train(option + " --dry-run");
    EXPECT_OUTCOME(dry, kExitUsage, real.err);
    EXPECT_EQ(dry.out, "") << from;
  }
  EXPECT_OUTCOME(train("--dry-run --init-from run --init-skip fc1"), kExitDone);
  // One that goes on reads no initial weights.
  EXPECT_OUTCOME(
      folder_.run(
          "--config tiny.yaml --dry-run --resume last --out run --set train.init_from=none"),
      kExitDone);
}

TEST_F(InitFrom, WeightsThatDoNotFitAreNamedWithBothShapes) {
  EXPECT_OUTCOME(train("--init-from run"), kExitUsage, best_ + ": its weights do not fit",
                 "'fc1.weight' is 4x144 float32 there, but 6x144 float32 here",
                 "'fc1.bias' is 4 float32 there, but 6 float32 here", "add --init-skip fc1");
  EXPECT_OUTCOME(train("--init-from run --init-skip fc"), kExitUsage,
                 "no layer with parameters is called 'fc' (did you mean 'fc1'?); there are: "
                 "conv1, fc1");
  EXPECT_OUTCOME(train("--init-skip fc1"), kExitUsage, "init_skip: belongs to init_from");
  EXPECT_OUTCOME(train("--init-from six.yaml"), kExitUsage, "six.yaml");
  EXPECT_OUTCOME(train("--init-from run --resume last"), kExitUsage, "--resume");
  EXPECT_FALSE(fs::exists(folder_ / "runs")) << "a refused run left a folder";
}

// As one saved by PyTorch: without metadata.
TEST_F(InitFrom, MissingAndUnusedTensorsAreSaid) {
  const safetensors::File file = safetensors::read(folder_ / best_);
  std::vector<safetensors::Entry> entries;
  for (const safetensors::Entry& entry : file.entries()) {
    if (!entry.name.starts_with("fc1")) entries.push_back(entry);
  }
  entries.push_back(entries.front());
  entries.back().name = "stem.weight";
  safetensors::write(folder_ / "theirs.safetensors", entries);
  EXPECT_OUTCOME(train("--init-from theirs.safetensors --out tuned"), kExitDone,
                 "does not have, so that they begin with initial values: fc1.weight, fc1.bias",
                 "has what this network has not: stem.weight");
  EXPECT_EQ(run_json("tuned")["init_from"]["unused"], json({"stem.weight"}));
  entries.erase(entries.begin(), entries.end() - 1);
  safetensors::write(folder_ / "theirs.safetensors", entries);
  EXPECT_OUTCOME(train("--init-from theirs.safetensors --out none"), kExitUsage,
                 "has no weights for this network; it has: stem.weight; wanted: conv1.weight");
}

// What is evaluated and saved is the average, which begins with them too.
TEST_F(InitFrom, AnAverageBeginsWithThem) {
  EXPECT_OUTCOME(train("--init-from run --init-skip fc1 --out tuned --set optimizer.ema=0.9"),
                 kExitDone);
  EXPECT_EQ(weights("tuned", "conv1.weight"), tensors(folder_ / best_).at("conv1.weight"));
}

}  // namespace
}  // namespace duet
