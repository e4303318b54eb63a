// The section "layers": rows, sums and, above all, that no cheat goes through it.
#include "compare/measure/layers_comparison.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "compare/results/results_json.h"
#include "compare/tables/summary.h"
#include "core/running.h"
#include "support/doubles.h"
#include "support/network_doubles.h"
#include "support/small_comparison.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

constexpr TimingPlan kBrief = {.block_seconds = 2e-3, .rounds = 2, .most_rounds = 2};

json layers_of(const ArmsOptions& options, LayersPlan plan = {}) {
  const auto arms = read_arms(options);
  const Setup setup = arms[0].setup();
  const Dataset dataset = setup.dataset.load("");
  StepTimer timer(arms, dataset, kBrief);
  RunningArms running;
  for (const Arm& arm : arms) running.push_back(std::make_unique<RunningArm>(arm, dataset));
  Context context(Device::kCpu);
  const Ceilings ceilings = {.copy_bytes_per_second = 1e10, .fp32_flops_per_second = 1e11};
  LayersSection section;
  plan.pass.timing = plan.network = kBrief;
  plan.steps = 2;
  compare_layers(running, timer.at(arms[0].spec.data.batch), ceilings, plan, &section);
  return JsonWriter::write(section);
}

const json& row_of(const json& layers, std::string_view layer, std::string_view pass) {
  for (const json& row : layers["rows"]) {
    if (row["layer"] == layer && row["pass"] == pass) return row;
  }
  throw std::logic_error("no row " + std::string(layer) + " " + std::string(pass));
}

// Activations of an arm in fp32 are no numbers of bfloat16.
TEST(LayersComparison, ArmsInFp32AndBf16StartFromTheSameNumbers) {
  const ComparisonFolder folder;
  folder.write("bf16.yaml", {{"backend: cpu", "backend: cpu_reference\nmath: bf16"}});
  const std::string bf16 = folder / "bf16.yaml";
  for (const auto& requests : {std::vector<std::string>{"cpu_reference", bf16}, {bf16, "cpu"}}) {
    const json layers = layers_of(folder.options(requests));
    for (const json& row : layers["rows"]) {
      if (row["type"].is_null()) continue;
      for (const json& arm : row["arms"]) {
        EXPECT_TRUE(!arm.is_object() || arm["agrees"] == true) << row.dump(1);
      }
    }
  }
}

TEST(LayersComparison, HasARowForEveryLayerAndPassAndSumsThatAddUp) {
  const ComparisonFolder folder;
  const json layers = layers_of(folder.options({"cpu_blas", "cpu_reference"}));
  bool spread = false;  // of some row; the shortest may take the same time in two rounds
  for (const json& row : layers["rows"]) {
    for (const json& arm : row["arms"]) {
      EXPECT_TRUE(arm["us"].is_object()) << row.dump(1);
      EXPECT_GT(arm["in_network_us"], 0) << row.dump(1);
    }
    if (row["type"].is_null()) {  // the batch, the update: real quantiles
      for (const json& arm : row["arms"]) {
        const double median = arm["us"]["median"];
        spread = spread || arm["us"]["p20"] < median || median < arm["us"]["p80"];
        EXPECT_LE(arm["us"]["p20"], median);
        EXPECT_LE(median, arm["us"]["p80"]);
      }
      continue;
    }
    for (const json& arm : row["arms"]) {
      EXPECT_EQ(arm["agrees"], true) << row.dump(1);
      EXPECT_LE(arm["tensors"][0]["share_of_limit"], 1.0);
      EXPECT_GT(arm["tensors"][0]["cosine"], 0.999999);
      EXPECT_GT(arm["share_of_floor"], 0);
    }
    EXPECT_EQ(row["ratios"].size(), 1u) << row.dump(1);
    EXPECT_TRUE(has(row["repeat"].get<std::string>(), "bench "));
  }
  EXPECT_TRUE(spread);
  EXPECT_EQ(row_of(layers, "fc1", "forward")["arms"][0]["implementation"], "cpu_blas");
  EXPECT_EQ(row_of(layers, "fc1", "forward")["arms"][1]["implementation"], "cpu_reference");
  EXPECT_NO_THROW(row_of(layers, "update", ""));
  ASSERT_EQ(layers["totals"].size(), 2u);
  for (const json& total : layers["totals"]) {
    double sum = 0;  // of all rows, the batch and the update too
    for (const json& row : layers["rows"]) {
      sum += row["arms"][total["arm"].get<size_t>()]["us"]["median"].get<double>();
    }
    EXPECT_NEAR(total["sum_us"].get<double>(), sum, 1e-6 * sum);
    EXPECT_GT(total["step_us"]["median"], 0);
    EXPECT_NEAR(total["gap_us"].get<double>(),
                total["step_us"]["median"].get<double>() - total["sum_us"].get<double>(), 1e-6);
  }
  EXPECT_EQ(layers["step_ratios"].size(), 1u);
}

// Who crashes in the steps that make the activations is in the network, not in the row that wants them.
TEST(LayersComparison, TellsOfTheActivationsAsSuch) {
  const ComparisonFolder folder;
  std::vector<std::string> begun;
  uint64_t before = 0;
  LayersPlan plan;
  plan.progress = [&](double, const std::string& work) {
    begun.push_back(work);
    if (begun.size() == 1) before = Running::count();
    if (begun.size() == 2) before = Running::count() - before;
  };
  layers_of(folder.options({"cpu_blas", "cpu_reference"}), plan);
  ASSERT_GT(begun.size(), 3u);
  EXPECT_EQ(begun[0], "layers, the activations");
  EXPECT_GE(before, 3u * 7u);  // three steps of that many passes
  EXPECT_EQ(begun[1], "layers, conv1 forward");
  EXPECT_EQ(std::count(begun.begin(), begun.end(), begun[0]), 1);
  EXPECT_EQ(begun.back(), "layers, each layer in the network");

  begun.clear();
  plan.ended = {{"layers, the activations", "cpu_mine", "cpu_mine in relu forward crashed"}};
  const json layers = layers_of(folder.options({"cpu_blas", "cpu_reference"}), plan);
  EXPECT_TRUE(begun.empty());
  EXPECT_TRUE(layers["rows"].empty() && !layers.contains("totals")) << layers.dump(1);
}

TEST(LayersComparison, ArmsOfTheSameCodeAreMeasuredOnceAndNotCompared) {
  const ComparisonFolder folder;
  const json layers = layers_of(folder.options({"cpu_blas", "cpu_blas"}));
  for (const json& row : layers["rows"]) {
    if (row["type"].is_null()) continue;
    EXPECT_EQ(row["arms"][0]["us"], row["arms"][1]["us"]);
    EXPECT_EQ(row["ratios"][0]["verdict"], kSameCode) << row.dump(1);
    EXPECT_FALSE(row["ratios"][0].contains("speedup")) << row.dump(1);
    EXPECT_LE(row["ratios"][0]["spread"][0], 1.0);
    EXPECT_GE(row["ratios"][0]["spread"][1], 1.0);
  }
  EXPECT_EQ(layers["step_ratios"][0]["verdict"], kSameCode);
  const Results results =
      results_from({{"layers", {layers}}, {"arms", {{{"name", "a"}}, {{"name", "b"}}}}});
  EXPECT_TRUE(has(summarise(results).headlines[0], "a and b run the same code in a training step"));
  EXPECT_TRUE(failures(results, {.slower = true, .ratio = 2}).empty());

  // One layer in another way: its rows and the step are compared, the others are not.
  const json mixed = layers_of(folder.options({"cpu_blas", "cpu_reference"}));
  EXPECT_EQ(row_of(mixed, "relu1", "forward")["ratios"][0]["verdict"], kSameCode);
  EXPECT_NE(row_of(mixed, "fc1", "forward")["ratios"][0]["verdict"], kSameCode);
  EXPECT_NE(mixed["step_ratios"][0]["verdict"], kSameCode);
}

TEST(LayersComparison, NamesALayerThatIsWrongInTheNetworkAlone) {
  const NetworkDoubles doubles(Device::kCpu);
  const ComparisonFolder folder;
  folder.write("cheat.yaml",
               {{"backend: cpu", "backend: cpu_blas"},
                {"type: linear", "type: linear, backend: cpu_double_wrong_in_evaluation"}});
  const json layers =
      layers_of(folder.options({"cpu_reference", (folder / "cheat.yaml").string()}));
  const json& cheat = row_of(layers, "fc1", "forward")["arms"][1];
  EXPECT_EQ(cheat["agrees"], false);
  EXPECT_TRUE(cheat["us"].is_null());
  EXPECT_EQ(cheat["faults"][0]["kind"], "wrong in the network");
  EXPECT_TRUE(row_of(layers, "fc1", "forward")["ratios"].empty());
  EXPECT_EQ(row_of(layers, "fc1", "backward_data")["arms"][1]["agrees"], true);
  EXPECT_TRUE(layers["totals"][1]["step_us"].is_null());
  EXPECT_TRUE(layers["step_ratios"].empty());
  EXPECT_EQ(layers["step_faults"][0], json::array());
  EXPECT_EQ(layers["step_faults"][1].size(), 1u);
}

TEST(LayersComparison, NamesEveryCheatAndGivesItNoTime) {
  const ComparisonFolder folder;
  const Doubles doubles(Device::kCpu);
  // Some of every stage; the tests of examinations have them all.
  const std::set<std::string> some = {"cpu_double_zeros", "cpu_double_unrepeatable",
                                      "cpu_double_wrong_later", "cpu_double_remembers_step"};
  for (const DoubleInfo& info : doubles.infos()) {
    if (!some.count(info.id)) continue;
    folder.write("cheat.yaml", {{"type: conv2d", "type: conv2d, backend: " + info.id},
                                {"type: linear", "type: linear, backend: " + info.id}});
    ArmsOptions options = folder.options({"cpu_reference", (folder / "cheat.yaml").string()});
    options.assignments = {"data.batch=" + std::to_string(kBenchedBatch)};
    const json layers = layers_of(options);
    size_t rows = 0;
    for (const json& row : layers["rows"]) {
      if (row["type"] != "conv2d" && row["type"] != "linear") continue;
      ++rows;
      if (!info.in_forward && row["pass"] == "forward") continue;
      const std::string where = info.id + ": " + row["layer"].get<std::string>() + " " +
                                row["pass"].get<std::string>() + "\n";
      const json& sound = row["arms"][0];
      const json& cheat = row["arms"][1];
      ASSERT_EQ(cheat["implementation"], info.id);
      EXPECT_EQ(cheat["agrees"], false) << where;
      ASSERT_FALSE(cheat["faults"].empty()) << where;
      EXPECT_EQ(cheat["faults"][0]["kind"], to_string(info.fault)) << where << cheat["faults"];
      EXPECT_TRUE(cheat["us"].is_null()) << where;
      EXPECT_TRUE(row["ratios"].empty()) << where;
      EXPECT_EQ(sound["agrees"], true) << where << sound["faults"];
    }
    EXPECT_EQ(rows, 5u);  // conv1 needs no gradient of the images

    const ResultsSummary summary = summarise(
        results_from({{"layers", {layers}}, {"arms", {{{"name", "a"}}, {{"name", "b"}}}}}));
    EXPECT_FALSE(summary.ok) << info.id;
    EXPECT_EQ(summary.first_mismatch.value().layer, "conv1");
  }
}

}  // namespace
}  // namespace duet
