// What a resumed run may change, what is refused and how, and that two processes never write into
// one folder.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include "apps/trainer_process.h"
#include "core/error.h"
#include "net/yaml.h"
#include "train/config_changes.h"
#include "train/run_folder.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kNetwork = R"(name: tiny
backend: cpu
data: {dataset: synthetic_images, batch: 16, size: 8, classes: 4, train_count: 64, validation_count: 32}
train: {epochs: 2}
optimizer: {type: adam, learning_rate: 0.01}
layers:
  - {name: conv1, type: conv2d, out_channels: 4, kernel: 3}
  - {name: act, type: tanh}
  - {name: drop, type: dropout, p: 0.3}
  - {name: flatten, type: flatten}
  - {name: fc1, type: linear, out_features: 4}
  - {name: loss, type: softmax_cross_entropy}
)";

// A folder with a run of two epochs in "run".
class Resume : public testing::Test {
 protected:
  Resume() {
    folder_.write("net.yaml", kNetwork);
    EXPECT_OUTCOME(folder_.run("--config net.yaml --out run --quiet"), kExitDone);
    config_ = folder_.read("run/config.yaml");
    last_ = folder_.read("run/checkpoints/last.safetensors");
  }
  Outcome resume(const std::string& arguments, const std::string& config = "net.yaml") const {
    return folder_.run("--config " + config + " --out run --resume last --epochs 4 " + arguments);
  }
  void expect_untouched() const {
    EXPECT_EQ(folder_.read("run/config.yaml"), config_);
    EXPECT_TRUE(folder_.read("run/checkpoints/last.safetensors") == last_);
    EXPECT_EQ(metrics(folder_, "run", "epoch").size(), 2u);
    EXPECT_FALSE(fs::exists(folder_ / "run/lock"));
  }
  void write_other(const std::string& from, const std::string& to) const {
    std::string text = kNetwork;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    folder_.write("other.yaml", text.replace(at, from.size(), to));
  }

  const TrainerFolder folder_;
  std::string config_, last_;
};

TEST_F(Resume, WithAnotherTrainingIsRefusedByName) {
  const struct {
    const char* arguments;
    const char* difference;
  } cases[] = {
      {"--set layers.drop.p=0.6", "layers.drop.p: 0.3 -> 0.6"},
      {"--set layers.conv1.padding=1 --set layers.conv1.stride=1", "layers.conv1.padding: 0 -> 1"},
      {"--set optimizer.weight_decay=0.1", "optimizer.weight_decay: 0 -> 0.1"},
      {"--set optimizer.learning_rate=0.02", "optimizer.learning_rate: 0.01 -> 0.02"},
      {"--set optimizer.type=sgd", "optimizer.type: adam -> sgd"},
      {"--set name=other", "name: tiny -> other"},
      {"--seed 2", "seed: 1 -> 2"},
      {"--set data.batch=8", "data.batch: 16 -> 8"},
      {"--set data.train_count=80", "data.train_count: 64 -> 80"},
      {"--set math=tf32", "math: fp32 -> tf32"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.arguments);
    const Outcome outcome = resume(c.arguments);
    if (outcome.code == kExitUnsupported) continue;  // tf32 on a CPU
    EXPECT_OUTCOME(outcome, kExitUsage, "run/checkpoints/last.safetensors: was trained otherwise",
                   c.difference, "--allow-changes");
    expect_untouched();
  }
  const std::vector<std::pair<const char*, const char*>> layers = {{"type: tanh", "type: relu"},
                                                                   {"name: act", "name: act2"}};
  for (const auto& [from, to] : layers) {
    write_other(from, to);
    const std::string difference = std::string(to) == "type: relu" ? "layers.act.type: tanh -> relu"
                                                                   : "layers.act2: (none) -> tanh";
    EXPECT_OUTCOME(resume("", "other.yaml"), kExitUsage, difference);
  }
  write_other("  - {name: flatten", "  - {name: more, type: relu}\n  - {name: flatten");
  EXPECT_OUTCOME(resume("", "other.yaml"), kExitUsage, "layers.more: (none) -> relu");
  // All of them at once.
  EXPECT_OUTCOME(resume("--seed 2 --set data.batch=8"), kExitUsage, "seed: 1 -> 2",
                 "data.batch: 16 -> 8");
  expect_untouched();
}

TEST_F(Resume, WithOtherFilesOfTheSameNameIsRefused) {
  // As if the images had been replaced: the fingerprint that the checkpoint knows is another.
  std::string text = last_;
  const size_t at = text.find("\"data\":\"") + 8;
  text[at] = text[at] == '0' ? '1' : '0';
  folder_.write("other.safetensors", text);
  EXPECT_OUTCOME(folder_.run("--config net.yaml --epochs 4 --resume other.safetensors"), kExitUsage,
                 "other images or labels");
}

TEST_F(Resume, MayChangeWhoComputesAndHowLong) {
  const Outcome outcome = resume("--backend cpu_reference --set train.log_every=3");
  EXPECT_OUTCOME(outcome, kExitDone, "backend: cpu -> cpu_reference", "epoch 4/4");
  EXPECT_EQ(outcome.err.find("log_every"), std::string::npos);
  const json run = json::parse(folder_.read("run/run.json"));
  EXPECT_EQ(run["changes"], json::array({"at step 8: backend: cpu -> cpu_reference"}));
}

TEST_F(Resume, MeantChangesAreMadeAndRecorded) {
  EXPECT_OUTCOME(
      resume("--allow-changes --set optimizer.learning_rate=0.002 --set layers.drop.p=0"),
      kExitDone, "optimizer.learning_rate: 0.01 -> 0.002", "epoch 4/4");
  const std::vector<std::string> first = {"at step 8: layers.drop.p: 0.3 -> 0",
                                          "at step 8: optimizer.learning_rate: 0.01 -> 0.002"};
  EXPECT_EQ(json::parse(folder_.read("run/run.json"))["changes"], json(first));
  // The checkpoint knows them too: the next change comes behind them. Another optimizer begins
  // without state.
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run --resume last --epochs 5 "
                             "--allow-changes --set optimizer.type=sgd "
                             "--set optimizer.momentum=0.5"),
                 kExitDone, "optimizer.type: adam -> sgd", "state begins anew", "epoch 5/5");
  const json changes = json::parse(folder_.read("run/run.json"))["changes"];
  ASSERT_GT(changes.size(), 3u);
  EXPECT_EQ(changes[0], first[0]);
  // Weights that do not fit stay an error.
  EXPECT_OUTCOME(folder_.run("--config run/config.yaml --out run --resume last --epochs 6 "
                             "--allow-changes --set layers.conv1.out_channels=5"),
                 kExitUsage, "another network", "conv1.weight");
}

TEST_F(Resume, WithAnotherBatchStartsTheEpochThatWasBegun) {
  EXPECT_OUTCOME(resume("--allow-changes --set data.batch=8 --set train.log_every=4"), kExitDone,
                 "data.batch: 16 -> 8", "at step 16", "epoch 3/4", "epoch 4/4");
  EXPECT_EQ(tensors(folder_ / "run/checkpoints/last.safetensors").at("step"), "32");
  EXPECT_EQ(metrics(folder_, "run", "epoch").size(), 4u);
}

TEST_F(Resume, ALostBestCheckpointIsTold) {
  fs::remove(folder_ / "run/checkpoints/best.safetensors");
  EXPECT_OUTCOME(resume(""), kExitDone, "does not hold the best epoch so far");
  EXPECT_TRUE(fs::exists(folder_ / "run/checkpoints/best.safetensors"));
}

TEST_F(Resume, FromAnotherFolderKeepsItsOwnBest) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --epochs 4 --out new --resume "
                             "run/checkpoints/last.safetensors"),
                 kExitDone, "epoch 4/4");
  EXPECT_TRUE(fs::exists(folder_ / "new/checkpoints/best.safetensors"));
  EXPECT_EQ(metrics(folder_, "new", "epoch").size(), 2u);
  expect_untouched();
}

TEST_F(Resume, OneProcessAtATime) {
  {
    const RunFolder held = RunFolder::reopen(folder_ / "run");
    const std::string id = "process " + std::to_string(getpid());
    EXPECT_OUTCOME(resume(""), kExitUsage, "run: " + id, "is writing into this run folder");
    EXPECT_EQ(folder_.read("run/lock"), std::to_string(getpid()));
  }
  expect_untouched();
  const RunFolder empty = RunFolder::create(folder_ / "empty");
  for (const char* what : {"", "--profile "}) {
    EXPECT_OUTCOME(folder_.run(std::string("--config net.yaml --out empty ") + what), kExitUsage,
                   "is writing into this run folder", "another folder");
  }
  EXPECT_EQ(folder_.read("empty/metrics.jsonl"), "");
}

TEST_F(Resume, AKilledProcessHoldsNothing) {
  const std::string train =
      "--config net.yaml --epochs 1 --quiet --set data.train_count=200000 "
      "--set data.batch=4 --set train.log_every=10 --out killed";
  EXPECT_EQ(folder_.run_until(train, "killed/metrics.jsonl", SIGKILL).code, 128 + SIGKILL);
  EXPECT_TRUE(fs::exists(folder_ / "killed/lock"));
  const RunFolder free = RunFolder::reopen(folder_ / "killed");
}

TEST(ConfigChanges, CompareByMeaning) {
  const auto changes = [](const std::string& before, const std::string& now) {
    std::string text;
    for (const ConfigChange& change :
         config_changes(read_yaml(before, "before"), read_yaml(now, "now"))) {
      text += to_string(change) + "; ";
    }
    return text;
  };
  EXPECT_EQ(changes("optimizer: {learning_rate: 0.001, beta: 1}",
                    "optimizer: {beta: 1.0, learning_rate: 1e-3}"),
            "");
  EXPECT_EQ(changes("layers: [{name: a, kernel: [3, 3]}]", "layers: [{kernel: 3, name: a}]"), "");
  EXPECT_EQ(changes("layers: [{name: a, kernel: [3, 1]}]", "layers: [{kernel: 3, name: a}]"),
            "layers.a.kernel: [3, 1] -> 3; ");
  EXPECT_EQ(changes("layers: [{name: a, type: t}, {name: b, type: t}]",
                    "layers: [{name: b, type: t}, {name: a, type: t}]"),
            "layers: [a, b] -> [b, a]; ");
  EXPECT_EQ(changes("seed: 1", "seed: 1\nmath: tf32"), "math: (none) -> tf32; ");
  EXPECT_EQ(changes("layers: 5", "layers: [7]"), "layers.(none): (none) -> (none); ");
}

}  // namespace
}  // namespace duet
