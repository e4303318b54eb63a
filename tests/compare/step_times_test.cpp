#include "compare/step_times.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "compare/small_comparison.h"

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

}  // namespace
}  // namespace duet
