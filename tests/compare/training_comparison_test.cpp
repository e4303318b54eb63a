// Arms in training: what must be the same is, what differs is told.
#include "compare/measure/training_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "compare/results/records.h"
#include "compare/results/results_json.h"
#include "compare/tables/summary.h"
#include "support/small_comparison.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

constexpr TimingPlan kShortPlan = {.block_seconds = 0.001, .rounds = 3, .most_rounds = 3};

json compare(const SmallComparison& small, int64_t seeds = 2) {
  StepTimer timer(small.arms, small.dataset, kShortPlan);
  return JsonWriter::write(compare_training(small.arms, small.dataset,
                                            timer.at(small.arms[0].spec.data.batch),
                                            {.steps = 12, .seeds = seeds}));
}

TEST(TrainingComparison, AnArmBesideItselfIsTheSameToTheBit) {
  const SmallComparison small({"cpu_blas", "cpu_blas", "cpu_reference"});
  const json training = compare(small);
  const json& arms = training["arms"];
  ASSERT_EQ(arms.size(), 3u);
  ASSERT_EQ(arms[0]["loss"].size(), 12u);
  EXPECT_EQ(arms[0]["loss"], arms[1]["loss"]);
  EXPECT_EQ(arms[0]["loss"], arms[0]["repeat_loss"]);
  EXPECT_EQ(arms[0]["repeats"], true);
  for (const json& arm : arms) EXPECT_EQ(arm["repeats"], true);
  EXPECT_EQ(arms[0]["accuracy"], arms[1]["accuracy"]);
  EXPECT_EQ(training["seeds"], json::array({1, 2}));
  EXPECT_EQ(training["epochs"], 2);

  const json& itself = training["differences"][0];
  EXPECT_EQ(itself["b"], 1);
  EXPECT_EQ(itself["loss"], json(std::vector<double>(12, 0.0)));
  EXPECT_EQ(itself["first_10_max"], 0.0);
  EXPECT_EQ(itself["accuracy_mean_difference"], 0.0);
  EXPECT_EQ(itself["verdict"], "unclear");  // two seeds make no interval
  EXPECT_TRUE(itself["low"].is_null() && itself["high"].is_null());
  // Another order of sums: other bits, the same learning.
  const json& other = training["differences"][1];
  EXPECT_EQ(other["b"], 2);
  EXPECT_GT(other["first_10_max"], 0.0);
  EXPECT_LT(other["first_10_max"], 1e-4);
  EXPECT_EQ(other["losses_agree"], true);
  // The first arm is the one that the loss starts from: log(4) classes, about.
  EXPECT_NEAR(arms[0]["loss"][0].get<double>(), 1.386, 0.2);
}

TEST(TrainingComparison, TellsTheShareAfterEveryStep) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  StepTimer timer(small.arms, small.dataset, kShortPlan);
  std::vector<double> shares;
  TrainingPlan plan = {.steps = 2, .seeds = 2};
  plan.step_done = [&](double share) { shares.push_back(share); };
  double of_losses = -1;
  plan.progress = [&](double share, const std::string&) {
    if (of_losses < 0) of_losses = share;
  };
  compare_training(small.arms, small.dataset, timer.at(16), plan);
  // Two losses twice; two seeds of two epochs of four batches and an evaluation.
  EXPECT_EQ(shares.size(), 2u * (2 * 2 + 2 * (2 * 4 + 1)));
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_NEAR(shares.back(), 1, 1e-9);
  EXPECT_LT(of_losses, 4.0 / 20 + 1e-9);  // far less than a seed's
  EXPECT_GT(of_losses, 0);
}

TEST(TrainingComparison, TellsSpeedMemoryAndTime) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  const json training = compare(small);
  for (const json& arm : training["arms"]) {
    EXPECT_GT(arm["images_per_second"], 0.0);
    EXPECT_GT(arm["step_us"], 0.0);
    EXPECT_EQ(arm["seconds"].size(), 2u);
    EXPECT_EQ(arm["final_loss"].size(), 2u);
    // 96 images of 64 bytes, four times 620 parameters, activations.
    EXPECT_GT(arm["peak_memory_bytes"], 96 * 64 + 4 * 4 * 620);
    EXPECT_GE(arm["prepare_s"], 0.0);
  }
  // Which arm is faster is the machine's affair; a busy one may even turn it round.
  const json& ratio = training["step_ratios"][0];
  EXPECT_EQ(ratio["a"], 0);
  EXPECT_EQ(ratio["b"], 1);
  EXPECT_GT(ratio["low"], 0.0);
  EXPECT_LE(ratio["low"], ratio["speedup"]);
  EXPECT_LE(ratio["speedup"], ratio["high"]);
}

TEST(TrainingComparison, ALossThatIsNotFiniteIsReported) {
  const SmallComparison small({"cpu_blas", "cpu_reference"}, {"optimizer.learning_rate=1e30"});
  json results = {{"arms", JsonWriter::write(records_of(small.running))},
                  {"training", compare(small, 1)}};
  const json& arm = results["training"]["arms"][0];
  ASSERT_TRUE(arm["halted_at"].is_number());
  const auto step = arm["halted_at"].get<size_t>();
  EXPECT_TRUE(arm["loss"][step - 1].is_null());
  EXPECT_TRUE(arm["loss"].back().is_null());
  EXPECT_EQ(arm["repeats"], true);
  const std::string summary = JsonWriter::write(summarise(results_from(results))).dump();
  EXPECT_TRUE(has(summary, "the loss of cpu_blas stopped being finite at step"));
  // A step can be fast and an accuracy equal for nothing.
  EXPECT_EQ(arm["halted_seeds"], results["training"]["seeds"]);
  const json& difference = results["training"]["differences"][0];
  EXPECT_EQ(difference["verdict"], "diverged");
  EXPECT_TRUE(difference["accuracy_mean_difference"].is_null());
  EXPECT_TRUE(has(summary, "but the training of cpu_blas and cpu_reference diverged",
                  "are not compared: the training of cpu_blas and cpu_reference diverged"));
  EXPECT_EQ(summary.find("learns to"), std::string::npos) << summary;
}

TEST(TrainingComparison, ComparesAccuraciesBySeed) {
  const std::vector<double> base = {0.912, 0.914, 0.911, 0.915, 0.913};
  const auto moved = [&](double by) {
    std::vector<double> values = base;
    for (double& value : values) value += by;
    return values;
  };
  EXPECT_EQ(compare_accuracies(base, base), "same");
  EXPECT_EQ(compare_accuracies(base, moved(0.0015)), "same");
  EXPECT_EQ(compare_accuracies(base, moved(0.01)), "different");
  EXPECT_EQ(compare_accuracies(moved(0.01), base), "different");
  EXPECT_EQ(compare_accuracies(base, moved(0.003)), "unclear");  // beyond, but not surely
  // Two seeds say little, but not nothing.
  EXPECT_EQ(compare_accuracies({0.91, 0.92}, {0.87, 0.88}), "unclear");
  EXPECT_EQ(compare_accuracies({0.91, 0.92}, {0.81, 0.82}), "different");
  EXPECT_EQ(compare_accuracies({0.11}, {0.85}), "different");
  EXPECT_EQ(compare_accuracies({0.5, 0.9, 0.7}, {0.4, 0.3, 0.44}), "different");
  EXPECT_EQ(compare_accuracies({0.91}, {0.91}), "unclear");
  // Alike on the mean, but several points might lie between them.
  EXPECT_EQ(compare_accuracies({0.8, 0.9, 0.85}, {0.9, 0.8, 0.85}), "unclear");
  // Wide apart and scattered: neither.
  EXPECT_EQ(compare_accuracies({0.5, 0.9, 0.7}, {0.4, 0.8, 0.65}), "unclear");
}

}  // namespace
}  // namespace duet
