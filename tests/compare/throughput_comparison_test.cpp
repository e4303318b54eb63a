// Speed by batch size, and rows that cannot be measured.
#include "compare/throughput_comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/small_comparison.h"

namespace duet {
namespace {

using nlohmann::json;

constexpr TimingPlan kShort = {.block_seconds = 0.001, .rounds = 3, .most_rounds = 3};

TEST(ThroughputComparison, MeasuresEveryBatchThatFits) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  StepTimer timer(small.arms, small.dataset, kShort);
  const json rows = compare_throughput(timer, {1, 32, 65});
  ASSERT_EQ(rows.size(), 3u);
  for (size_t i = 0; i < 2; ++i) {
    for (const json& arm : rows[i]["arms"]) {
      const double batch = rows[i]["batch"].get<double>();
      for (const std::string what : {"training", "inference"}) {
        const double us = arm[what + "_us"]["median"].get<double>();
        EXPECT_GT(us, 0.0);
        EXPECT_NEAR(arm[what + "_images_per_s"].get<double>() * us, 1e6 * batch, batch);
      }
    }
    EXPECT_GT(rows[i]["training_ratios"][0]["speedup"], 0.0);
  }
  EXPECT_EQ(rows[2]["batch"], 65);
  for (const json& arm : rows[2]["arms"]) {
    EXPECT_NE(arm["error"].get<std::string>().find("65 is larger than the 64 training images"),
              std::string::npos);
    EXPECT_FALSE(arm.contains("training_us"));
  }
  EXPECT_FALSE(rows[2].contains("training_ratios"));
}

TEST(ThroughputComparison, AnArmThatTheMachineCannotHoldIsNotTheEnd) {
  // 2^31 - 1 outputs of a layer: more memory than there is, at any batch.
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  std::vector<Arm> arms = small.arms;
  arms[1].options.assignments.push_back("layers.fc1.out_features=120000000");
  StepTimer timer(arms, small.dataset, kShort);
  const json rows = compare_throughput(timer, {16});
  EXPECT_TRUE(rows[0]["arms"][0].contains("training_us"));
  EXPECT_NE(rows[0]["arms"][1]["error"].get<std::string>().find("out of memory"),
            std::string::npos);
  EXPECT_TRUE(rows[0]["training_ratios"].empty());
}

}  // namespace
}  // namespace duet
