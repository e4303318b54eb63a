// The goal of a training, and the table of several.
#include <gtest/gtest.h>

#include "core/error.h"
#include "support/trainer_process.h"

namespace duet {
namespace {

using nlohmann::json;

json run_json(const TrainerFolder& folder, const std::string& run) {
  return json::parse(folder.read(run + "/run.json"));
}

TEST(TrainerGoal, IsToldAndKeptWhereItIsReached) {
  const TrainerFolder folder;
  const std::string start = "--config tiny.yaml --out run ";
  EXPECT_OUTCOME(folder.run(start + "--epochs 1 --set train.goal=0.1"), kExitDone,
                 "reached the goal of val_accuracy 10.00% after");
  const json first = run_json(folder, "run");
  EXPECT_EQ(first["goal"]["epoch"], 1);
  EXPECT_GT(first["goal"]["seconds"].get<double>(), 0.0);
  EXPECT_EQ(first["finished"], true);
  // A run that goes on knows of it, and another goal is looked for from the beginning.
  EXPECT_OUTCOME(folder.run(start + "--epochs 2 --set train.goal=0.1 --resume last"), kExitDone);
  EXPECT_EQ(run_json(folder, "run")["goal"], first["goal"]);
  const Outcome nothing =
      folder.run(start + "--epochs 2 --set train.goal=0.1 --resume last --json --quiet");
  EXPECT_OUTCOME(nothing, kExitDone, "has done 2 epochs");
  EXPECT_EQ(json::parse(nothing.out)["goal"], first["goal"]);
  const Outcome more =
      folder.run(start + "--epochs 3 --set train.goal=1 --resume last --json --quiet");
  EXPECT_OUTCOME(more, kExitDone);
  const json none = {{"val_accuracy", 1.0}, {"epoch", nullptr}, {"seconds", nullptr}};
  const auto epochs = metrics(folder, "run", "epoch");
  if (epochs.back()["val_accuracy"] < 1.0) {
    EXPECT_EQ(run_json(folder, "run")["goal"], none);
    EXPECT_EQ(json::parse(more.out)["goal"], none);
  }
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --dry-run --set train.goal=92"), kExitUsage,
                 "train: goal: expected a number from 0 to 1");
}

TEST(TrainerAccuracy, WritesATableOfFinishedRuns) {
  const TrainerFolder folder;
  for (const char* seed : {"1", "2"}) {
    EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --set train.goal=0.1 --seed " +
                              std::string(seed) + " --out runs/" + seed),
                   kExitDone);
  }
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --set math=bf16 --out runs/bf16"),
                 kExitDone);
  const Outcome outcome = folder.run("accuracy runs/1 runs/2 runs/bf16 --write pages/accuracy.md");
  EXPECT_OUTCOME(outcome, kExitDone, "the table: pages/accuracy.md and pages/accuracy.json");
  const std::vector<std::string> lines = lines_of(outcome.out);
  ASSERT_EQ(lines.size(), 3u) << outcome.out;
  EXPECT_TRUE(has(lines[1], "tiny", "synthetic_images", "cpu", "fp32", "1, 2", "10.00%"));
  EXPECT_TRUE(has(lines[2], "bf16"));
  const json table = json::parse(folder.read("pages/accuracy.json"));
  EXPECT_EQ(table["schema"], "duet.accuracy/1");
  ASSERT_EQ(table["runs"].size(), 3u);
  const auto epochs = metrics(folder, "runs/1", "epoch");
  double seconds = 0;
  for (const json& epoch : epochs) {
    seconds += epoch["seconds"].get<double>() + epoch["evaluation_seconds"].get<double>();
  }
  const json& run = table["runs"][0];
  EXPECT_EQ(run["accuracy"], epochs.back()["val_accuracy"]);
  EXPECT_NEAR(run["seconds"].get<double>(), seconds, 1e-9);
  EXPECT_EQ(run["epochs"], 2);
  EXPECT_EQ(run["goal"], run_json(folder, "runs/1")["goal"]);
  EXPECT_FALSE(table["runs"][2].contains("goal"));
  // A table is a source too, and a run that is done anew takes the place of the old one.
  EXPECT_OUTCOME(folder.run("accuracy pages/accuracy.json runs/2 --write again.md"), kExitDone);
  EXPECT_EQ(folder.read("again.md"), folder.read("pages/accuracy.md"));
  EXPECT_EQ(json::parse(folder.read("again.json")), table);
  EXPECT_TRUE(has(folder.read("again.md"), "# Accuracy", "| tiny |", "cpu. Duet "));
}

TEST(TrainerAccuracy, OnlyTheSameConfigurationIsARow) {
  const TrainerFolder folder;
  const std::string start = "--config tiny.yaml --quiet --out ";
  EXPECT_OUTCOME(folder.run(start + "a"), kExitDone);
  EXPECT_OUTCOME(folder.run(start + "rate --set optimizer.learning_rate=0.002"), kExitDone);
  EXPECT_OUTCOME(folder.run(start + "goal --seed 2 --set train.goal=0.1"), kExitDone);
  EXPECT_OUTCOME(folder.run(start + "again"), kExitDone);
  const Outcome outcome = folder.run("accuracy a rate goal again");
  EXPECT_OUTCOME(outcome, kExitDone, "again: tiny by cpu, seed 1, stands there twice");
  EXPECT_EQ(lines_of(outcome.out).size(), 4u) << outcome.out;
  folder.write("page.json", "hello");
  EXPECT_OUTCOME(folder.run("accuracy a --write page.md"), kExitUsage, "page.json too",
                 "something else");
  EXPECT_EQ(folder.read("page.json"), "hello");
}

// The time of the epochs of the run before is not known in the new folder.
TEST(TrainerAccuracy, TimesThatAreNotKnownAreNotShown) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --epochs 1 --out before"), kExitDone);
  EXPECT_OUTCOME(
      folder.run("--config tiny.yaml --quiet --epochs 2 --set train.goal=0.01 --out after "
                 "--resume before/checkpoints/last.safetensors"),
      kExitDone);
  const json goal = {{"val_accuracy", 0.01}, {"epoch", 2}, {"seconds", nullptr}};
  EXPECT_EQ(run_json(folder, "after")["goal"], goal);
  EXPECT_OUTCOME(folder.run("accuracy after --write page.md"), kExitDone);
  EXPECT_TRUE(json::parse(folder.read("page.json"))["runs"][0]["seconds"].is_null());
}

TEST(TrainerAccuracy, RefusesWhatIsNoFinishedRun) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("accuracy"), kExitUsage, "runs is required");
  EXPECT_OUTCOME(folder.run("accuracy none"), kExitUsage, "none: there is no such folder");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --quiet --out run"), kExitDone);
  EXPECT_OUTCOME(folder.run("accuracy run --write page.html"), kExitUsage, "ends in .md");
  json run = run_json(folder, "run");
  run["epochs"] = 5;
  run["finished"] = false;
  folder.write("run/run.json", run.dump());
  EXPECT_OUTCOME(folder.run("accuracy run"), kExitUsage,
                 "run: has not come to its end: 2 of 5 epochs are done");
  run["finished"] = true;  // early
  folder.write("run/run.json", run.dump());
  EXPECT_OUTCOME(folder.run("accuracy run"), kExitDone);
  folder.write("other.json", "{\"schema\":\"duet.compare/1\"}");
  EXPECT_OUTCOME(folder.run("accuracy other.json"), kExitUsage,
                 "results of the form 'duet.compare/1'");
  folder.write("other.json", "{");
  EXPECT_OUTCOME(folder.run("accuracy other.json"), kExitUsage, "other.json: not JSON");
}

}  // namespace
}  // namespace duet
