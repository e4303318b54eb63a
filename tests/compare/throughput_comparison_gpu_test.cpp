// One network in several arms: their times must be the same, whatever ran before.
#include <gtest/gtest.h>

#include "compare/measure/throughput_comparison.h"
#include "support/gpu_test.h"
#include "test_paths.h"

namespace duet {
namespace {

class ThroughputOnGpu : public GpuTest {};

TEST_F(ThroughputOnGpu, IdenticalArmsAreNotToldApart) {
  // Large enough for its time to depend on what stays in the L2 cache, and beside a library, whose
  // memory and streams are what made the difference.
  const auto arms =
      read_arms({.config = DUET_SOURCE_DIR "/configs/fashion_mnist_cnn.yaml",
                 .requests = {"custom", "custom", "cudnn", "custom"},
                 .assignments = {"data.dataset=synthetic_images", "data.train_count=1024"}});
  const Dataset dataset = arms[0].setup().dataset.load({});
  // What compare has made and let go before it comes to throughput.
  { const RunningArm before(arms[0], dataset); }
  StepTimer timer(arms, dataset, TimingPlan::quick());
  const ThroughputRow row = compare_throughput(timer, 64);
  for (const StepKind& kind : {kTrainingSteps, kInferenceSteps}) {
    ASSERT_EQ((row.*kind.ratios).size(), 3u);
    for (const ArmRatio& ratio : row.*kind.ratios) {
      if (ratio.b == 2) continue;
      EXPECT_EQ(ratio.verdict, kSameCode) << kind.name << ", arm " << ratio.b;
      EXPECT_GT(ratio.spread.value().first, 0.95) << kind.name << ", arm " << ratio.b;
      EXPECT_LT(ratio.spread.value().second, 1.05) << kind.name << ", arm " << ratio.b;
    }
  }
  // Nor would they be if it were not known that their code is the same.
  for (const auto* times : {&timer.at(64).training, &timer.at(64).inference}) {
    for (const size_t arm : {1, 3}) {
      const Ratio ratio = speedup((*times)[0].seconds, (*times)[arm].seconds);
      EXPECT_NEAR(ratio.speedup, 1, 0.03);
      EXPECT_TRUE(ratio.verdict == Verdict::kSame || ratio.verdict == Verdict::kUnclear)
          << to_string(ratio.verdict) << ", " << ratio.low << " to " << ratio.high;
    }
  }
}

}  // namespace
}  // namespace duet
