// Speed by batch size, and rows that cannot be measured.
#include "compare/measure/throughput_comparison.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/results/results_json.h"
#include "compare/tables/summary.h"
#include "support/network_doubles.h"
#include "support/small_comparison.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

/// A row for each batch.
json rows_of(StepTimer& timer, const std::vector<int64_t>& batches) {
  json rows;
  for (int64_t batch : batches) {
    rows.push_back(JsonWriter::write(compare_throughput(timer, batch)));
  }
  return rows;
}

constexpr TimingPlan kShortBlocks = {.block_seconds = 0.001, .rounds = 3, .most_rounds = 3};

TEST(ThroughputComparison, MeasuresEveryBatchThatFits) {
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  StepTimer timer(small.arms, small.dataset, kShortBlocks);
  const json rows = rows_of(timer, {1, 32, 65});
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
    EXPECT_TRUE(has(arm["error"].get<std::string>(), "65 is larger than the 64 training images"));
    EXPECT_FALSE(arm.contains("training_us"));
  }
  EXPECT_FALSE(rows[2].contains("training_ratios"));
}

TEST(ThroughputComparison, SaysWhatIsWrongAtABatch) {
  const NetworkDoubles doubles(Device::kCpu);
  const ComparisonFolder folder;
  folder.write("cheat.yaml", {{"backend: cpu", "backend: cpu_blas"},
                              {"type: linear", "type: linear, backend: cpu_double_wrong_above"}});
  const auto arms = read_arms(folder.options({"cpu_blas", (folder / "cheat.yaml").string()}));
  const Dataset dataset = arms[0].setup().dataset.load({});
  StepTimer timer(arms, dataset, kShortBlocks);
  const json rows = rows_of(timer, {32, 64});
  EXPECT_TRUE(rows[0]["arms"][1]["faults"].empty());
  EXPECT_TRUE(rows[0]["arms"][1].contains("training_us"));
  const json& wrong = rows[1]["arms"][1];
  EXPECT_FALSE(wrong.contains("training_us") || wrong.contains("inference_us")) << wrong.dump(1);
  EXPECT_TRUE(rows[1]["training_ratios"].empty());
  EXPECT_TRUE(has(wrong["error"].get<std::string>(), "fc1 forward: in the network at batch 64"));
  const auto lines =
      failures(results_from({{"throughput", rows}, {"arms", {{{"name", "a"}}, {{"name", "b"}}}}}),
               {.mismatch = true});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("mismatch: fc1 forward: b: in the network")) << lines[0];
}

TEST(ThroughputComparison, AnArmThatTheMachineCannotHoldIsNotTheEnd) {
  // Weights of 2 TB: no machine has the memory, at any batch.
  const SmallComparison small({"cpu_blas", "cpu_reference"});
  std::vector<Arm> arms = small.arms;
  for (const char* assignment :
       {"layers.conv1.out_channels=128", "layers.fc1.out_features=120000000"}) {
    arms[1].options.assignments.push_back(assignment);
  }
  StepTimer timer(arms, small.dataset, kShortBlocks);
  const json rows = rows_of(timer, {16});
  EXPECT_TRUE(rows[0]["arms"][0].contains("training_us"));
  EXPECT_TRUE(has(rows[0]["arms"][1]["error"].get<std::string>(), "out of memory"));
  EXPECT_TRUE(rows[0]["training_ratios"].empty());
}

}  // namespace
}  // namespace duet
