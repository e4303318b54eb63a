// One network in several arms: their times must be the same, whatever ran before.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/throughput_comparison.h"
#include "support/gpu_test.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

class ThroughputOnGpu : public GpuTest {};

TEST_F(ThroughputOnGpu, IdenticalArmsAreTheSame) {
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
  const json rows = compare_throughput(timer, {64});
  for (const std::string what : {"training", "inference"}) {
    for (const json& ratio : rows[0][what + "_ratios"]) {
      if (ratio["b"] == 2) continue;
      EXPECT_EQ(ratio["verdict"], "same") << what << " " << ratio.dump();
    }
  }
}

}  // namespace
}  // namespace duet
