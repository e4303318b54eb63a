#include "compare/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "compare/small_comparison.h"
#include "support/network_doubles.h"

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
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(steps.has(i));
    for (const Times* times : {&steps.training[i], &steps.inference[i]}) {
      EXPECT_EQ(times->seconds.size(), 3u);
      EXPECT_GT(times->calls, 0);
    }
    // The fastest rounds: the machine may be busy in others.
    EXPECT_LT(std::ranges::min(steps.inference[i].seconds),
              std::ranges::min(steps.training[i].seconds));
  }
}

// Every round reads the configuration again, and takes all memory again.
TEST(StepTimer, MakesTheArmsAnewForEveryRound) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  std::vector<Arm> arms = small.arms;
  StepTimer timer(arms, small.dataset, {.block_seconds = 0.1, .rounds = 2, .most_rounds = 2});
  // A round takes most of a second; a change of the file meanwhile is met by the next.
  std::thread changes([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    small.folder.write("tiny.yaml", {{"dataset: synthetic_images", "dataset: none"}});
  });
  const StepTimes steps = timer.at(8);
  changes.join();
  EXPECT_FALSE(steps.has(0));
  EXPECT_TRUE(steps.training[0].seconds.empty());
}

/// cpu_reference, and cpu_blas with a double for its linear layer.
std::vector<Arm> arms_with_double(const ComparisonFolder& folder, const std::string& name) {
  const std::string id = network_double(Device::kCpu, name);
  folder.write("cheat.yaml", {{"backend: cpu", "backend: cpu_blas"},
                              {"type: linear", "type: linear, backend: " + id}});
  return read_arms(folder.options({"cpu_reference", folder.path("cheat.yaml").string()}));
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
  EXPECT_NE(steps.fault_text(1).find("fc1 forward: in the network at batch 64"), std::string::npos)
      << steps.fault_text(1);
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
  EXPECT_NE(steps.fault_text(1).find("does something else while it is timed"), std::string::npos)
      << steps.fault_text(1);
}

TEST(StepTimer, GivesNoTimeThatIsImpossible) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  StepTimer timer(small.arms, small.dataset, kShort,
                  {.copy_bytes_per_second = 1, .fp32_flops_per_second = 1});
  const StepTimes& steps = timer.at(8);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_FALSE(steps.has(i));
    EXPECT_NE(steps.fault_text(i).find("us for a training step, and nothing"), std::string::npos)
        << steps.fault_text(i);
  }
}

}  // namespace
}  // namespace duet
