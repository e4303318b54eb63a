#include "compare/measure/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "support/network_doubles.h"
#include "support/small_comparison.h"
#include "support/text.h"

namespace duet {
namespace {

constexpr TimingPlan kShort = {.block_seconds = 0.001, .rounds = 3, .most_rounds = 3};

TEST(StepTimer, MeasuresABatchOnceAndARoundAtATime) {
  const SmallComparison small({"cpu_blas", "cpu_blas", "cpu_blas"});
  StepTimer timer(small.arms, small.dataset, kShort);
  const StepTimes& steps = timer.at(8);
  EXPECT_EQ(&steps, &timer.at(8));
  EXPECT_EQ(steps.batch, 8);
  ASSERT_EQ(steps.training.size(), 3u);
  double training = INFINITY, inference = INFINITY;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(steps.has(i));
    for (const Times* times : {&steps.training[i], &steps.inference[i]}) {
      EXPECT_EQ(times->seconds.size(), 3u);
      EXPECT_GT(times->calls, 0);
    }
    training = std::min(training, std::ranges::min(steps.training[i].seconds));
    inference = std::min(inference, std::ranges::min(steps.inference[i].seconds));
  }
  EXPECT_LT(inference, training);  // the fastest rounds: the machine may be busy in others
}

TEST(StepTimer, TellsTheShareBeforeEveryBlockAndCheck) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  std::vector<double> shares;
  StepTimer timer(small.arms, small.dataset, kShort, {},
                  [&](double share) { shares.push_back(share); });
  timer.at(8);
  EXPECT_GE(shares.size(), 3u * 2 * 2 * 2 + 2);  // rounds, groups, arms, blocks; two checks
  EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
  EXPECT_EQ(shares.front(), 0);
  EXPECT_LT(shares.back(), 1);
}

TEST(StepTimer, EstimatesAreOfTheBatchThatIsAskedFor) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  const StepTimes estimate = estimate_steps(small.arms, small.dataset, 16);
  EXPECT_EQ(estimate.batch, 16);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(estimate.has(i));
    EXPECT_GT(estimate.training[i].seconds.at(0), 0);
    EXPECT_GT(estimate.inference[i].seconds.at(0), 0);
  }
}

// Every round makes the arms anew, from what was read before the first.
TEST(StepTimer, IsOfTheFileAsItWasRead) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  std::vector<Arm> arms = small.arms;
  StepTimer timer(arms, small.dataset, {.block_seconds = 0.001, .rounds = 2, .most_rounds = 2});
  small.folder.write("tiny.yaml", {{"dataset: synthetic_images", "dataset: none"}});
  const StepTimes& steps = timer.at(8);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(steps.has(i)) << steps.fault_text(i);
    EXPECT_EQ(steps.training[i].seconds.size(), 2u);
  }
}

/// cpu_reference, and cpu_blas with a double for its linear layer.
std::vector<Arm> arms_with_double(const ComparisonFolder& folder, const std::string& name) {
  const std::string id = double_id(Device::kCpu, name);
  folder.write("cheat.yaml", {{"backend: cpu", "backend: cpu_blas"},
                              {"type: linear", "type: linear, backend: " + id}});
  return read_arms(folder.options({"cpu_reference", (folder / "cheat.yaml").string()}));
}

TEST(StepTimer, GivesNoTimeToWhatIsWrongAtABatch) {
  const NetworkDoubles doubles(Device::kCpu);
  const ComparisonFolder folder;
  const auto arms = arms_with_double(folder, "wrong_above");
  const Dataset dataset = arms[0].setup().dataset.load({});
  StepTimer timer(arms, dataset, kShort);
  EXPECT_TRUE(timer.at(kLargestRightBatch).has(1)) << timer.at(kLargestRightBatch).fault_text(1);
  const StepTimes& steps = timer.at(64);
  EXPECT_TRUE(steps.has(0)) << steps.fault_text(0);
  EXPECT_FALSE(steps.has(1));
  EXPECT_TRUE(steps.training[1].seconds.empty() && steps.inference[1].seconds.empty());
  EXPECT_TRUE(has(steps.fault_text(1), "fc1 forward: in the network at batch 64"));
}

TEST(StepTimer, GivesNoTimeToInstancesThatComputeLess) {
  const NetworkDoubles doubles(Device::kCpu);
  const ComparisonFolder folder;
  const auto arms = arms_with_double(folder, "idle_at_first");
  const Dataset dataset = arms[0].setup().dataset.load({});
  StepTimer timer(arms, dataset, kShort);
  set_idle_instances(3);  // that which finds the number of calls, and two of three rounds
  const StepTimes& steps = timer.at(8);
  set_idle_instances(0);
  EXPECT_TRUE(steps.has(0)) << steps.fault_text(0);
  EXPECT_FALSE(steps.has(1));
  EXPECT_TRUE(has(steps.fault_text(1), "does something else while it is timed"));
}

TEST(StepTimer, GivesNoTimeThatIsImpossible) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  StepTimer timer(small.arms, small.dataset, kShort,
                  {.copy_bytes_per_second = 1, .fp32_flops_per_second = 1});
  const StepTimes& steps = timer.at(8);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(steps.has(i));
    EXPECT_TRUE(has(steps.fault_text(i), "us for a training step, and nothing"));
  }
}

}  // namespace
}  // namespace duet
