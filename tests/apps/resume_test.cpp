// What a resumed run and an evaluation may change, what is refused and how, and that two processes
// never write into one folder.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/error.h"
#include "net/yaml.h"
#include "support/trainer_process.h"
#include "train/run/config_changes.h"
#include "train/run/run_folder.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// A folder with a run of two epochs in "run".
class Resume : public testing::Test {
 protected:
  Resume() {
    folder_.write("net.yaml", network_);
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
    EXPECT_FALSE(fs::exists(folder_ / "run/.duet-lock"));
  }
  void write_other(const std::string& from, const std::string& to) const {
    folder_.write("other.yaml", changed(network_, {{from, to}}));
  }

  const std::string network_ = changed(
      kTinyNetwork, {{"  - {name: relu1, type: relu}",
                      "  - {name: act, type: tanh}\n  - {name: drop, type: dropout, p: 0.3}"}});
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
      {"--set math=bf16", "math: fp32 -> bf16"},
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

TEST_F(Resume, AnEvaluationAsAnotherNetworkIsRefusedByName) {
  const std::string evaluate = " --evaluate run/checkpoints/last.safetensors ";
  const std::string own = "--config net.yaml" + evaluate;
  // The parameters have the same names and sizes in all of these.
  write_other("type: tanh", "type: relu");
  EXPECT_OUTCOME(folder_.run("--config other.yaml" + evaluate), kExitUsage,
                 "run/checkpoints/last.safetensors: was trained otherwise",
                 "layers.act.type: tanh -> relu", "config.yaml", "--allow-changes");
  EXPECT_OUTCOME(folder_.run("--config other.yaml --allow-changes" + evaluate), kExitDone,
                 "otherwise than it was trained: layers.act.type: tanh -> relu");
  write_other("  - {name: act, type: tanh}\n", "");
  EXPECT_OUTCOME(folder_.run("--config other.yaml" + evaluate), kExitUsage,
                 "layers.act: tanh -> (none)");
  EXPECT_OUTCOME(folder_.run(own + "--set layers.conv1.dilation=2 "
                                   "--set layers.conv1.padding=1"),
                 kExitUsage, "layers.conv1.dilation: 1 -> 2", "layers.conv1.padding: 0 -> 1");
  EXPECT_OUTCOME(folder_.run(own + "--set data.validation_count=31"), kExitUsage,
                 "data.validation_count: 32 -> 31");
}

TEST_F(Resume, AnEvaluationMayChangeWhatDecidesTheTrainingAlone) {
  const std::string own = "--config net.yaml --evaluate run/checkpoints/last.safetensors ";
  const Outcome plain = folder_.run(own + "--json"),
                other = folder_.run(own +
                                    "--json --backend cpu_reference --seed 2 --set name=other "
                                    "--set data.batch=8 --set data.train_count=40 --epochs 9 "
                                    "--set layers.drop.p=0.6 --set optimizer.type=sgd");
  EXPECT_OUTCOME(plain, kExitDone);
  EXPECT_OUTCOME(other, kExitDone);
  EXPECT_EQ(other.err.find("otherwise"), std::string::npos) << other.err;
  EXPECT_EQ(json::parse(plain.out)["val_accuracy"], json::parse(other.out)["val_accuracy"]);
  const Outcome bf16 = folder_.run(own + "--set math=bf16");
  EXPECT_OUTCOME(bf16, kExitDone);
  EXPECT_EQ(bf16.err.find("otherwise"), std::string::npos) << bf16.err;
  write_other("  - {name: drop, type: dropout, p: 0.3}\n", "");
  EXPECT_OUTCOME(folder_.run("--config other.yaml --evaluate run/checkpoints/last.safetensors"),
                 kExitDone);
}

TEST_F(Resume, AllowingChangesBelongsToACheckpoint) {
  EXPECT_OUTCOME(folder_.run("--config net.yaml --allow-changes"), kExitUsage,
                 "belongs to --resume or --evaluate");
}

TEST_F(Resume, WithOtherFilesOfTheSameNameIsRefused) {
  // As if the images had been replaced: the fingerprint that the checkpoint knows is another.
  std::string text = last_;
  const size_t at = text.find("\"data\":\"") + 8;
  text[at] = text[at] == '0' ? '1' : '0';
  folder_.write("other.safetensors", text);
  EXPECT_OUTCOME(folder_.run("--config net.yaml --epochs 4 --resume other.safetensors"), kExitUsage,
                 "other images or labels");
  EXPECT_OUTCOME(folder_.run("--config net.yaml --evaluate other.safetensors"), kExitUsage,
                 "other images or labels");
}

// The rates of all steps follow from the length of the schedule.
TEST_F(Resume, AScheduleOfAnotherLengthIsRefusedByName) {
  folder_.write("net.yaml", changed(network_, {{"layers:", "schedule: {type: cosine}\nlayers:"}}));
  EXPECT_OUTCOME(resume(""), kExitUsage, "schedule.type: (none) -> cosine");
  const auto train = [&](const std::string& arguments) {
    return folder_.run("--config net.yaml --out cosine " + arguments);
  };
  EXPECT_OUTCOME(train("--quiet"), kExitDone);
  EXPECT_OUTCOME(train("--resume last --epochs 4"), kExitUsage, "schedule.total_epochs: 2 -> 4",
                 "--allow-changes");
  EXPECT_OUTCOME(train("--resume last --epochs 4 --set schedule.total_epochs=2 "
                       "--set schedule.eta_min=0.001"),
                 kExitUsage, "schedule.eta_min: 0 -> 0.001");
  EXPECT_OUTCOME(train("--resume last --epochs 3 --set schedule.total_epochs=2"), kExitDone,
                 "the schedule of the learning rate ends at step 8 of 12", "epoch 3/3");
  EXPECT_OUTCOME(train("--resume last --epochs 4 --allow-changes"), kExitDone,
                 "schedule.total_epochs: 2 -> 4", "epoch 4/4");
}

TEST_F(Resume, MayChangeWhoComputesAndHowLong) {
  const Outcome outcome = resume("--backend cpu_reference --set train.log_every=3");
  EXPECT_OUTCOME(outcome, kExitDone, "backend: cpu -> cpu_reference", "epoch 4/4");
  EXPECT_EQ(outcome.err.find("log_every"), std::string::npos);
  const json run = json::parse(folder_.read("run/run.json"));
  EXPECT_EQ(run["changes"], json::array({"at step 8: backend: cpu -> cpu_reference"}));
}

TEST_F(Resume, AKeyThatIsGivenItsDefaultIsNoChange) {
  const std::string same = changed(
      network_, {{"train: {", "train: {best: val_accuracy, "},
                 {"optimizer: {", "optimizer: {beta1: 9e-1, decay_biases: true, "},
                 {"type: softmax_cross_entropy", "type: softmax_cross_entropy, label_smoothing: 0"},
                 {"name: flatten,", "name: flatten, inputs: drop,"}});
  folder_.write("same.yaml", same + "schedule: {type: constant}\n");
  const Outcome outcome = resume("", "same.yaml");
  EXPECT_OUTCOME(outcome, kExitDone, "epoch 4/4");
  EXPECT_EQ(outcome.err.find("otherwise than"), std::string::npos) << outcome.err;
  // And back, also where what saved it wrote them.
  EXPECT_OUTCOME(folder_.run("--config net.yaml --out run --resume last --epochs 5"), kExitDone,
                 "epoch 5/5");
  EXPECT_OUTCOME(resume("--set optimizer.decay_biases=false"), kExitUsage,
                 "optimizer.decay_biases: (none) -> false");
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
  // rmsprop's momentum buffer is none of sgd's, though both are called so.
  const auto with = [&](const std::string& type, int epochs) {
    return folder_.run("--config net.yaml --out run --resume last --epochs " +
                       std::to_string(epochs) + " --allow-changes --set optimizer.type=" + type +
                       " --set optimizer.momentum=0.5");
  };
  EXPECT_OUTCOME(with("rmsprop", 6), kExitDone, "optimizer.type: sgd -> rmsprop", "epoch 6/6");
  EXPECT_OUTCOME(with("sgd", 7), kExitDone, "optimizer.type: rmsprop -> sgd", "state begins anew");
  const json changes = json::parse(folder_.read("run/run.json"))["changes"];
  ASSERT_GT(changes.size(), 3u);
  EXPECT_EQ(changes[0], first[0]);
  // Weights that do not fit stay an error.
  EXPECT_OUTCOME(folder_.run("--config run/config.yaml --out run --resume last --epochs 8 "
                             "--allow-changes --set layers.conv1.out_channels=5"),
                 kExitUsage, "do not fit", "conv1.weight");
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
    EXPECT_EQ(folder_.read("run/.duet-lock"), std::to_string(getpid()));
  }
  expect_untouched();
  const RunFolder empty = RunFolder::create(folder_ / "empty");
  for (const char* what : {"", "--profile "}) {
    EXPECT_OUTCOME(folder_.run(std::string("--config net.yaml --out empty ") + what), kExitUsage,
                   "is writing into this run folder", "another folder");
  }
  EXPECT_EQ(folder_.read("empty/metrics.jsonl"), "");
  // Files without a checkpoint are no remains to be removed while somebody writes them.
  folder_.write("empty/run.json", "{}");
  const Outcome second = folder_.run("--config net.yaml --out empty");
  EXPECT_OUTCOME(second, kExitUsage, "empty: process " + std::to_string(getpid()) + " is writing");
  EXPECT_EQ(second.err.find("remove it"), std::string::npos);
}

TEST_F(Resume, LeavesWhatIsNoFileOfARun) {
  const auto refused = [&] {
    for (const char* how : {"run --resume last", "mine"}) {
      EXPECT_OUTCOME(folder_.run(std::string("--config net.yaml --epochs 4 --out ") + how),
                     kExitUsage, ".duet-lock: is not what a run locks its folder with");
    }
  };
  for (const char* text : {"do not touch\n", "12 34", "11111111112222222222333333333344444444"}) {
    for (const char* file : {"run/.duet-lock", "mine/.duet-lock"}) folder_.write(file, text);
    refused();
    EXPECT_EQ(folder_.read("run/.duet-lock"), text);
    EXPECT_EQ(folder_.read("mine/.duet-lock"), text);
  }
  folder_.write("target", "");
  for (const char* run : {"run", "mine"}) {
    fs::remove(folder_ / run / ".duet-lock");
    fs::create_symlink("../target", folder_ / run / ".duet-lock");
  }
  refused();
  EXPECT_TRUE(fs::exists(folder_ / "target") && fs::is_symlink(folder_ / "run/.duet-lock"));
  for (const char* run : {"run", "mine"}) {
    fs::remove(folder_ / run / ".duet-lock");
    ASSERT_EQ(mkfifo((folder_ / run / ".duet-lock").c_str(), 0600), 0);
  }
  refused();
  fs::remove(folder_ / "run/.duet-lock");
  // Beside a run's files, and under a name that was once the lock's.
  const std::vector<std::string> mine = {"run/lock", "run/run.json.tmp1234",
                                         "run/run.json.duet.tmp012", "run/run.json.duet.tmp",
                                         "run/notes.duet.tmp1234"};
  for (const std::string& file : mine) folder_.write(file, "12");
  fs::create_directory(folder_ / "run/run.json.duet.tmp77");
  folder_.write("run/run.json.duet.tmp4194999", "{");
  EXPECT_OUTCOME(resume(""), kExitDone, "epoch 4/4");
  for (const std::string& file : mine) EXPECT_EQ(folder_.read(file), "12") << file;
  EXPECT_TRUE(fs::exists(folder_ / "run/run.json.duet.tmp77"));
  EXPECT_FALSE(fs::exists(folder_ / "run/run.json.duet.tmp4194999"));
}

// Whoever waited for a pipe's content could wait for ever.
TEST_F(Resume, MetricsThatAreNoRegularFileAreRefusedAtOnce) {
  const fs::path file = folder_ / "run/metrics.jsonl";
  const auto refused = [&] {
    EXPECT_OUTCOME(resume(""), kExitUsage, "metrics.jsonl is not a regular file");
    fs::remove(file);
  };
  fs::remove(file);
  ASSERT_EQ(mkfifo(file.c_str(), 0600), 0);
  refused();
  fs::create_symlink("/dev/zero", file);
  refused();
  fs::create_directory(file);
  refused();
  folder_.write("run/metrics.jsonl", "");
  fs::resize_file(file, uint64_t{1} << 40);  // a hole
  EXPECT_OUTCOME(resume(""), kExitUsage, "metrics.jsonl: has 1099511627776 bytes");
  fs::remove(file);
  EXPECT_OUTCOME(resume(""), kExitDone, "epoch 4/4");
}

TEST_F(Resume, AKilledProcessHoldsNothing) {
  const std::string train =
      "--config net.yaml --epochs 1 --quiet --set data.train_count=200000 "
      "--set data.batch=4 --set train.log_every=10 --out killed";
  EXPECT_EQ(folder_.run_until(train, "killed/metrics.jsonl", SIGKILL).code, 128 + SIGKILL);
  EXPECT_TRUE(fs::exists(folder_ / "killed/.duet-lock"));
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
