// What a run leaves, that it repeats to the bit, and that it can be interrupted.
#include <gtest/gtest.h>
#include <signal.h>

#include <cmath>

#include "core/error.h"
#include "support/trainer_process.h"
#include "train/checkpoint/safetensors.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

TEST(Trainer, LeavesConfigurationMetricsAndCheckpoints) {
  const TrainerFolder folder;
  const Outcome outcome = folder.run("--config tiny.yaml --out run --set train.log_every=2 --json");
  EXPECT_OUTCOME(outcome, kExitDone, "64 training and 32 validation images", "epoch 2/2",
                 "parameters: 620");

  const auto epochs = metrics(folder, "run", "epoch");
  ASSERT_EQ(epochs.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(epochs[i]["epoch"], i + 1);
    for (const char* key : {"train_loss", "train_accuracy", "val_loss", "val_accuracy",
                            "images_per_second", "seconds"}) {
      EXPECT_GT(epochs[i].at(key), 0.0) << key;
    }
    EXPECT_LE(epochs[i]["train_accuracy"], 1.0);
    EXPECT_LE(epochs[i]["val_accuracy"], 1.0);
  }
  EXPECT_EQ(metrics(folder, "run", "step").size(), 4u);  // 8 steps, every second

  const json run = json::parse(folder.read("run/run.json"));
  EXPECT_EQ(run["name"], "tiny");
  EXPECT_EQ(run["seed"], 1);
  EXPECT_EQ(run["parameters"], 620);
  EXPECT_EQ(run["dataset"]["name"], "synthetic_images");
  for (const char* key : {"duet", "versions", "device", "backend", "layers"}) {
    EXPECT_TRUE(run.contains(key)) << key;
  }

  // One line, and it says the same as the metrics.
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 1);
  const json summary = json::parse(outcome.out);
  EXPECT_EQ(summary["val_accuracy"], epochs[1]["val_accuracy"]);
  EXPECT_EQ(summary["interrupted"], false);
  EXPECT_EQ(summary["out"], "run");
  EXPECT_TRUE(fs::exists(folder / "run/checkpoints/best.safetensors"));

  // A checkpoint evaluates to what its epoch said.
  const Outcome evaluation =
      folder.run("--config tiny.yaml --evaluate run/checkpoints/last.safetensors --json");
  EXPECT_OUTCOME(evaluation, kExitDone, "32 validation images");
  EXPECT_EQ(json::parse(evaluation.out)["val_accuracy"], epochs[1]["val_accuracy"]);
  EXPECT_EQ(json::parse(evaluation.out)["val_loss"], epochs[1]["val_loss"]);
  EXPECT_FALSE(fs::exists(folder / "runs"));
}

TEST(Trainer, QuietPrintsNothing) {
  const TrainerFolder folder;
  const Outcome outcome = folder.run("--config tiny.yaml --quiet");
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_EQ(outcome.out + outcome.err, "");
  // Without --out the run is in runs/<name>-<time>.
  ASSERT_TRUE(fs::exists(folder / "runs"));
  const fs::path run = fs::directory_iterator(folder / "runs")->path();
  EXPECT_TRUE(run.filename().string().starts_with("tiny-2")) << run;
  EXPECT_TRUE(fs::exists(run / "checkpoints/last.safetensors"));
}

TEST(Trainer, NamesOfFilesNeedNotBeUtf8) {
  const TrainerFolder folder;
  const Outcome outcome = folder.run("--config tiny.yaml --json --out run\xe6");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_EQ(json::parse(outcome.out)["out"], "run\xef\xbf\xbd");
}

TEST(Trainer, RunsStartedTogetherHaveFoldersOfTheirOwn) {
  const TrainerFolder folder;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(folder.run("--config tiny.yaml --quiet").code, kExitDone);
  const auto runs = fs::directory_iterator(folder / "runs");
  EXPECT_EQ(std::distance(begin(runs), end(runs)), 3);
}

TEST(Trainer, SeedAloneDecidesTheResult) {
  const TrainerFolder folder;
  // Large enough to be shared by threads, whose number must not matter.
  folder.write("net.yaml", R"(name: net
backend: cpu
data: {dataset: synthetic_images, batch: 64, size: 16, train_count: 256, validation_count: 64}
train: {epochs: 2}
optimizer: {type: adam, learning_rate: 0.001}
layers:
  - {type: conv2d, out_channels: 16, kernel: 3}
  - {type: relu}
  - {type: max_pool2d, kernel: 2}
  - {type: dropout, p: 0.2}
  - {type: flatten}
  - {type: linear, out_features: 128}
  - {type: linear, out_features: 10}
  - {type: softmax_cross_entropy}
)");
  const auto train = [&](const std::string& arguments, const std::string& threads) {
    EXPECT_OUTCOME(folder.run("--config net.yaml --quiet --out run " + arguments,
                              {.environment = {"OMP_NUM_THREADS=" + threads}}),
                   kExitDone);
    const auto result = tensors(folder / "run/checkpoints/last.safetensors");
    fs::remove_all(folder / "run");
    return result;
  };
  const auto first = train("", "2");
  EXPECT_TRUE(train("", "2") == first);
  EXPECT_TRUE(train("", "1") == first);
  EXPECT_TRUE(train("", "3") == first);
  EXPECT_TRUE(train("--seed 1", "2") == first);
  EXPECT_FALSE(train("--seed 2", "2") == first);
}

TEST(Trainer, KeepsTheScheduleAndTheRates) {
  const TrainerFolder folder;
  const std::string arguments =
      "--config tiny.yaml --set schedule.type=linear --set schedule.start_factor=1 "
      "--set schedule.end_factor=0 --set train.log_every=1 ";
  const std::string text = "schedule   linear, start_factor 1, end_factor 0, total_epochs 2";
  EXPECT_OUTCOME(folder.run(arguments + "--out run"), kExitDone, text);
  EXPECT_TRUE(has(folder.run(arguments + "--dry-run").out, text, "optimizer  adam, learning_rate"));
  const json dry = json::parse(folder.run(arguments + "--dry-run --json").out);
  const json run = json::parse(folder.read("run/run.json"));
  for (const json& object : {dry, run}) {
    EXPECT_EQ(object["schedule"]["type"], "linear");
    EXPECT_EQ(object["schedule"]["total_epochs"], 2);
    EXPECT_EQ(object["optimizer"]["learning_rate"], 0.01);
  }
  EXPECT_TRUE(has(folder.read("run/config.yaml"), "total_epochs: 2", "warmup_epochs: 0"));
  const std::vector<json> steps = metrics(folder, "run", "step");
  ASSERT_EQ(steps.size(), 8u);
  for (size_t i = 0; i < steps.size(); ++i) {
    EXPECT_FLOAT_EQ(steps[i]["learning_rate"].get<float>(),
                    0.01 * (1.0 - static_cast<double>(i) / 8));
  }
  EXPECT_EQ(steps[0]["learning_rate"], 0.01);
  EXPECT_EQ(metrics(folder, "run", "epoch")[1]["learning_rate"], steps[7]["learning_rate"]);
}

TEST(Trainer, ResolvedConfigurationRunsAgain) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out a --quiet --seed 5 --epochs 3 --set "
                            "layers.conv1.out_channels=5"),
                 kExitDone);
  EXPECT_OUTCOME(folder.run("--config a/config.yaml --out b --quiet"), kExitDone);
  EXPECT_TRUE(tensors(folder / "a/checkpoints/last.safetensors") ==
              tensors(folder / "b/checkpoints/last.safetensors"));
  EXPECT_EQ(folder.read("a/config.yaml"), folder.read("b/config.yaml"));
}

TEST(Trainer, StopsEarlyAndResumesToTheSame) {
  const TrainerFolder folder;
  const std::string stopping =
      "--config tiny.yaml --quiet --set train.early_stopping.metric=val_accuracy --set "
      "train.early_stopping.min_delta=1 --set train.early_stopping.patience=";
  // No epoch improves by more than 1, but the first.
  const Outcome outcome = folder.run(stopping + "2 --epochs 9 --json --out whole");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_EQ(json::parse(outcome.out)["epoch"], 3);
  EXPECT_EQ(json::parse(outcome.out)["stopped_early"], true);
  EXPECT_EQ(metrics(folder, "whole", "epoch").size(), 3u);
  EXPECT_OUTCOME(folder.run(stopping + "2 --epochs 2 --out parts"), kExitDone);
  EXPECT_OUTCOME(folder.run(stopping + "2 --epochs 9 --out parts --resume last"), kExitDone);
  EXPECT_TRUE(tensors(folder / "whole/checkpoints/last.safetensors") ==
              tensors(folder / "parts/checkpoints/last.safetensors"));
  EXPECT_OUTCOME(folder.run("--config parts/config.yaml --epochs 9 --out parts --resume last"),
                 kExitDone, "stopped early, after 3 epochs", "patience");
  EXPECT_EQ(metrics(folder, "parts", "epoch").size(), 3u);
  EXPECT_OUTCOME(folder.run(stopping + "4 --epochs 9 --out parts --resume last"), kExitDone);
  EXPECT_EQ(metrics(folder, "parts", "epoch").size(), 5u);
}

TEST(Trainer, LowersTheRateOnAPlateauAndResumesToTheSame) {
  const TrainerFolder folder;
  // No epoch improves by more than 1, but the first.
  const std::string plateau =
      "--config tiny.yaml --set optimizer.learning_rate=0.25 --set schedule.type=reduce_on_plateau "
      "--set "
      "schedule.metric=val_accuracy --set schedule.threshold_mode=abs --set schedule.threshold=1 "
      "--set "
      "schedule.factor=0.5 --set schedule.patience=0 --set schedule.cooldown=1 ";
  EXPECT_OUTCOME(
      folder.run(plateau + "--epochs 6 --out whole"), kExitDone,
      "val_accuracy has not improved for 1 epochs; the learning rate is 0.125 from here on");
  std::vector<double> rates;
  for (const json& epoch : metrics(folder, "whole", "epoch"))
    rates.push_back(epoch["learning_rate"]);
  EXPECT_EQ(rates, (std::vector<double>{0.25, 0.25, 0.125, 0.125, 0.0625, 0.0625}));
  EXPECT_OUTCOME(folder.run(plateau + "--epochs 3 --out parts"), kExitDone);
  EXPECT_OUTCOME(folder.run(plateau + "--epochs 6 --out parts --resume last"), kExitDone);
  EXPECT_TRUE(tensors(folder / "whole/checkpoints/last.safetensors") ==
              tensors(folder / "parts/checkpoints/last.safetensors"));
}

TEST(Trainer, KeepsTheBestEpochOfAnyMetric) {
  const TrainerFolder folder;
  for (const std::string metric : {"val_loss", "val_top5", "train_loss", "train_accuracy"}) {
    EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --epochs 4 --set "
                              "optimizer.learning_rate=0.3 --set layers.fc1.out_features=9 "
                              "--set train.best=" +
                              metric + " --out " + metric),
                   kExitDone);
    double best = metric.ends_with("loss") ? -INFINITY : -1.0;
    double step = 0;
    for (const json& epoch : metrics(folder, metric, "epoch")) {
      const double value = epoch[metric];
      const double score = metric.ends_with("loss") ? -value : value;
      if (score <= best) continue;
      best = score;
      step = 4 * epoch["epoch"].get<double>();
    }
    const auto saved = safetensors::read(folder / (metric + "/checkpoints/best.safetensors"));
    EXPECT_EQ(std::strtod(saved.metadata().at("step").c_str(), nullptr), step) << metric;
  }
}

// The metric is the accuracy of an evaluation, and of rows as the loss counts them.
TEST(Trainer, MeasuresATopKAccuracy) {
  const TrainerFolder folder;
  const auto trained = [&](const std::string& keys, const std::string& set) {
    folder.write("top.yaml", folder.read("tiny.yaml") + "  - {name: top, type: top_k_accuracy, " +
                                 keys + "}\n");
    EXPECT_OUTCOME(folder.run("--config top.yaml --quiet --epochs 2 --out run --set "
                              "train.best=val_top --set layers.fc1.out_features=9 " +
                              set),
                   kExitDone);
    const json epoch = metrics(folder, "run", "epoch").back();
    fs::remove_all(folder / "run");
    return epoch;
  };
  for (const char* ignored : {"", ", ignore_class: 1"}) {
    const std::string also = *ignored ? "--set layers.loss.ignore_class=1" : "";
    const json one = trained(std::string("k: 1") + ignored, also);
    EXPECT_NEAR(one["val_top"], one["val_accuracy"], 1e-6);
    EXPECT_NEAR(one["train_top"], one["train_accuracy"], 1e-6);
    const json five = trained(std::string("k: 5") + ignored, also);
    EXPECT_NEAR(five["val_top"], five["val_top5"], 1e-6);
    EXPECT_GE(five["val_top"], one["val_top"]);
  }
  EXPECT_OUTCOME(folder.run("--config top.yaml --dry-run --set layers.top.k=10"), kExitUsage,
                 "layer top (top_k_accuracy)", "the 10 largest outputs");
}

TEST(Trainer, RefusesUnknownMetricsAndLosses) {
  const TrainerFolder folder;
  const auto refused = [&](const std::string& assignment, const std::string& words) {
    EXPECT_OUTCOME(folder.run("--config tiny.yaml --set " + assignment), kExitUsage, words);
  };
  refused("train.best=val_acuracy", "did you mean 'val_accuracy'");
  refused("train.early_stopping.metric=val_loss", "patience");
  refused("train.best=val_top5", "command line: train: best: 'val_top5' is always 1");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --set train.early_stopping.patience=1 --set "
                            "train.early_stopping.metric=val_top5"),
                 kExitUsage, "train: early_stopping: metric: 'val_top5' is always 1");
  refused("train.early_stopping.patience=0", "patience");
  const std::string plateau = "schedule.type=reduce_on_plateau --set schedule.";
  refused(plateau + "metric=val_psnr", "schedule: metric: unknown metric 'val_psnr'");
  refused(plateau + "factor=1", "schedule: factor: expected a number below 1");
  refused(plateau + "mode=max", "which values are better is known of the metric");
  refused(plateau + "patience=-1", "schedule: patience");
  refused("layers.loss.label_smoothing=2", "label_smoothing");
  refused("layers.loss.class_weights=1", "class_weights has 1");
  refused("layers.loss.type=mse2", "mse");
}

// The whole of a run by each loss: training, evaluation, prediction.
TEST(Trainer, TrainsAndPredictsByEveryLoss) {
  const TrainerFolder folder;
  for (const std::string loss : {"mse", "bce_with_logits", "multi_margin"}) {
    EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --epochs 6 --set layers.loss.type=" +
                              loss + " --out " + loss),
                   kExitDone);
    EXPECT_GT(metrics(folder, loss, "epoch").back()["val_accuracy"], 0.4) << loss;  // chance: 0.25
    const Outcome outcome = folder.run("evaluate --json --quiet --checkpoint " + loss +
                                       "/checkpoints/last.safetensors");
    EXPECT_OUTCOME(outcome, kExitDone);
    EXPECT_EQ(json::parse(outcome.out)["val_loss"],
              metrics(folder, loss, "epoch").back()["val_loss"]);
  }
}

TEST(Trainer, ResumesWhereItStood) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out whole --quiet --epochs 4"), kExitDone);
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out parts --quiet --epochs 1"), kExitDone);
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out parts --resume last --epochs 4"), kExitDone,
                 "at step 4", "epoch 2/4", "epoch 4/4");
  EXPECT_TRUE(tensors(folder / "whole/checkpoints/last.safetensors") ==
              tensors(folder / "parts/checkpoints/last.safetensors"));
  EXPECT_EQ(metrics(folder, "parts", "epoch").size(), 4u);
  // Nothing is left to do, and that is said; the summary has the accuracy all the same.
  const Outcome done = folder.run("--config tiny.yaml --out parts --resume last --epochs 4 --json");
  EXPECT_OUTCOME(done, kExitDone, "has done 4 epochs", "--epochs");
  EXPECT_EQ(json::parse(done.out)["val_accuracy"],
            metrics(folder, "whole", "epoch")[3]["val_accuracy"]);
  // ... and the run stays the one that it was.
  const std::string config = folder.read("parts/config.yaml"), run = folder.read("parts/run.json");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --out parts --resume last --epochs 1"), kExitDone,
                 "has done 4 epochs and 1 are asked for");
  EXPECT_EQ(folder.read("parts/config.yaml"), config);
  EXPECT_EQ(folder.read("parts/run.json"), run);
}

TEST(Trainer, InterruptedRunGoesOnToTheSameBits) {
  const TrainerFolder folder;
  const std::string train =
      "--config tiny.yaml --epochs 1 --quiet --set data.train_count=200000 --set data.batch=4 ";
  EXPECT_OUTCOME(folder.run(train + "--out whole"), kExitDone);
  const auto whole = tensors(folder / "whole/checkpoints/last.safetensors");
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    const std::string run = "interrupted" + std::to_string(signal);
    const Outcome outcome =
        folder.run_until(train + "--json --out " + run, run + "/metrics.jsonl", signal);
    EXPECT_OUTCOME(outcome, kExitInterrupted, "interrupted after step",
                   "--resume " + run + "/checkpoints/last.safetensors");
    EXPECT_EQ(json::parse(outcome.out)["interrupted"], true);
    const auto saved = tensors(folder / (run + "/checkpoints/last.safetensors"));
    EXPECT_GT(std::stoi(saved.at("step")), 0);
    EXPECT_LT(std::stoi(saved.at("step")), 50000);
    EXPECT_OUTCOME(folder.run(train + "--resume last --out " + run), kExitDone);
    EXPECT_TRUE(tensors(folder / (run + "/checkpoints/last.safetensors")) == whole);
    // The epoch's means are those of the whole epoch.
    EXPECT_EQ(metrics(folder, run, "epoch").at(0)["train_loss"],
              metrics(folder, "whole", "epoch").at(0)["train_loss"]);
  }
}

}  // namespace
}  // namespace duet
