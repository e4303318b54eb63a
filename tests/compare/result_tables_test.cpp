#include "compare/tables/result_tables.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compare/results/results_json.h"
#include "compare/results_fixture.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

std::string cell(const ResultTable& table, size_t row, const std::string& column) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == column) return table.rows.at(row).at(i).text;
  }
  ADD_FAILURE() << "no column " << column;
  return "";
}

Tone tone(const ResultTable& table, size_t row, const std::string& column) {
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].name == column) return table.rows.at(row).at(i).tone;
  }
  return Tone::kPlain;
}

// Three layers' worth of numbers that can be read off by eye.
Results small_results() {
  return results_from(json::parse(
      R"({"arms": [{"name": "custom"}, {"name": "cudnn"}], "layers": [{"batch": 64, "rows": [
    {"layer": "conv", "pass": "forward", "flops": 8e6, "bytes": 4e6, "floor_us": 1.5, "arms": [
      {"implementation": "custom_fast", "us": {"median": 2, "p20": 1.9, "p80": 2.25},
       "share_of_floor": 0.75, "gflop_per_s": 4000, "gb_per_s": 2000, "workspace_bytes": 2048,
       "agrees": true, "tensors": [{"name": "y", "share_of_limit": 0.25, "max_error": 2e-7}]},
      {"implementation": "cudnn", "shared": true, "us": {"median": 4}, "agrees": true,
       "tensors": [{"name": "y", "share_of_limit": 0.5}, {"name": "dw", "share_of_limit": 1.5}]}],
     "ratios": [{"a": 0, "b": 1, "speedup": 2, "low": 1.9, "high": 2.1, "verdict": "faster"}]},
    {"layer": "relu", "pass": "forward", "arms": [null,
      {"agrees": false, "us": {"median": 1}, "faults": [{"kind": "zeros", "text": "all zeros"}]}]}
  ]}]})"));
}

LayersSection small_batch() { return small_results().layers[0]; }

TEST(ResultTables, LayersHaveTimesSharesAndVerdicts) {
  const ResultTable table = layer_table(small_results(), small_batch());
  ASSERT_EQ(table.rows.size(), 2u);
  // Ratio and verdict are what a phone shows without scrolling.
  EXPECT_EQ(table.columns.at(2).name, "custom against cudnn");
  EXPECT_EQ(table.columns.at(3).name, "verdict");
  EXPECT_EQ(cell(table, 0, "custom µs"), "2.00");
  EXPECT_EQ(cell(table, 0, "cudnn µs"), "4.00");
  EXPECT_EQ(cell(table, 0, "saved µs"), "2.00");
  EXPECT_EQ(cell(table, 1, "saved µs"), "-");
  EXPECT_EQ(cell(table, 0, "floor µs"), "1.50");
  EXPECT_EQ(cell(table, 0, "custom, share of floor"), "75%");
  EXPECT_EQ(cell(table, 0, "cudnn, share of floor"), "-");
  EXPECT_EQ(cell(table, 0, "custom against cudnn"), "2.00x (1.90 to 2.10)");
  EXPECT_EQ(cell(table, 0, "verdict"), "faster");
  EXPECT_EQ(tone(table, 0, "verdict"), Tone::kGood);
  // No such layer in one arm; a wrong result in the other, whose time is not told.
  EXPECT_EQ(cell(table, 1, "custom µs"), "-");
  EXPECT_EQ(cell(table, 1, "cudnn µs"), "wrong");
  EXPECT_EQ(tone(table, 1, "cudnn µs"), Tone::kBad);
  EXPECT_EQ(cell(table, 1, "verdict"), "-");
}

TEST(ResultTables, TheSameCodeHasASpreadAndNoSpeedup) {
  LayersSection batch = small_batch();
  const ArmRatio same = {.b = {1}, .verdict = kSameCode, .spread = {{0.95, 1.25}}};
  batch.rows[0].ratios = {same};
  const ResultTable table = layer_table(small_results(), batch);
  EXPECT_EQ(cell(table, 0, "custom against cudnn"), "spread 0.950 to 1.25");
  EXPECT_EQ(cell(table, 0, "verdict"), "same code");
  EXPECT_EQ(tone(table, 0, "verdict"), Tone::kPlain);
  const ResultTable pairs = ratio_table(small_results(), {same});
  EXPECT_EQ(cell(pairs, 0, "speedup"), "spread 0.950 to 1.25");
  EXPECT_EQ(cell(pairs, 0, "95%"), "-");
  EXPECT_EQ(cell(pairs, 0, "verdict"), "same code");
  Results results = small_results();
  results.layers[0].step_ratios = {same};
  const Figure figure = key_figures(results)[0];
  EXPECT_EQ(figure.value, "-");
  EXPECT_EQ(figure.note, "custom against cudnn, spread 0.950 to 1.25: same code");
  EXPECT_EQ(figure.tone, Tone::kPlain);
}

TEST(ResultTables, DetailsOfEachArm) {
  const ResultTable rates = rate_table(small_results(), small_batch());
  ASSERT_EQ(rates.rows.size(), 3u);
  EXPECT_EQ(cell(rates, 0, "p20 to p80"), "1.90 to 2.25");
  EXPECT_EQ(cell(rates, 0, "GFLOP/s"), "4,000");
  const ResultTable table = implementation_table(small_results(), small_batch());
  ASSERT_EQ(table.rows.size(), 2u);  // the third names no implementation
  EXPECT_EQ(cell(table, 0, "implementation"), "custom_fast");
  EXPECT_EQ(cell(table, 0, "workspace"), "2.0 KiB");
  EXPECT_EQ(cell(table, 0, "error, share of limit"), "25%");
  EXPECT_EQ(cell(table, 1, "implementation"), "cudnn (shared)");
  EXPECT_EQ(cell(table, 1, "error, share of limit"), "150%");
}

TEST(ResultTables, OnAConsoleHeadingsWrapLettersCountAndWideTablesAreSplit) {
  EXPECT_EQ(console_text(
                {{{"layer", false}, {"µs"}, {"why", false}}, {{{"conv"}, {"12.5"}, {"one\ntwo"}}}}),
            "layer    µs  why\n"
            "conv   12.5  one\n"
            "             two\n");
  const std::string wide(60, '9');
  const Column share = {"share of the floor"};
  EXPECT_EQ(console_text({{{"layer", false}, share}, {{{"conv"}, {"7%"}}}}),
            "layer  share of the floor\nconv                   7%\n");
  EXPECT_TRUE(has(
      console_text({{{"layer", false}, {"a"}, {"b"}, share}, {{{"conv"}, {wide}, {wide}, {"7%"}}}}),
      "\n\n       share of the\nlayer         floor\nconv             7%\n"));
}

TEST(ResultTables, RooflineLeavesOutWhatHasNoArithmetic) {
  const ResultTable table = roofline_table(small_results(), small_batch());
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(cell(table, 0, "FLOP/byte"), "2.00");
  EXPECT_EQ(cell(table, 0, "custom GFLOP/s"), "4,000");
  EXPECT_EQ(cell(table, 0, "custom GB/s"), "2,000");
  EXPECT_EQ(cell(table, 0, "cudnn GFLOP/s"), "-");
}

TEST(ResultTables, ErrorsBeyondTheLimitAreMarked) {
  const ResultTable table = error_table(small_results(), small_batch());
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_EQ(cell(table, 0, "share of limit"), "25%");
  EXPECT_EQ(tone(table, 0, "share of limit"), Tone::kPlain);
  EXPECT_EQ(cell(table, 2, "tensor"), "dw");
  EXPECT_EQ(tone(table, 2, "share of limit"), Tone::kBad);
  const ResultTable worst = worst_error_table(small_results(), small_batch());
  ASSERT_EQ(worst.rows.size(), 2u);
  EXPECT_EQ(cell(worst, 1, "largest share of limit"), "150%");
  EXPECT_EQ(cell(worst, 1, "outputs checked"), "2");
  LayersSection batch = small_batch();
  batch.rows[0].error_ratio = ErrorRatio{.b = {1}, .value = 2.5};
  const ResultTable ratios = error_ratio_table(small_results(), batch);
  ASSERT_EQ(ratios.rows.size(), 1u);
  EXPECT_EQ(cell(ratios, 0, "error ratio"), "2.50");
  EXPECT_EQ(tone(ratios, 0, "within the rule"), Tone::kBad);
  const ResultTable faults = fault_table(small_results());
  ASSERT_EQ(faults.rows.size(), 1u);
  EXPECT_EQ(cell(faults, 0, "layer"), "relu");
  EXPECT_EQ(cell(faults, 0, "arm"), "cudnn");
  EXPECT_EQ(cell(faults, 0, "what is wrong"), "all zeros");
}

TEST(ResultTables, KeyFiguresSumUp) {
  const std::vector<Figure> figures = key_figures(results_from(results_fixture(3)));
  // The step of two arms against the third at two batch sizes, the error, two accuracies.
  ASSERT_EQ(figures.size(), 4u + 1 + 2);
  EXPECT_EQ(figures[0].label, "training step, batch 64");
  EXPECT_TRUE(has(figures[0].note, "custom against other3"));
  EXPECT_EQ(figures[0].tone, Tone::kGood);
  EXPECT_EQ(figures[4].value, "38%");
  EXPECT_EQ(figures[5].value, "+0.04");
  EXPECT_TRUE(key_figures(Results()).empty());
  Results results = results_from(results_fixture());
  results.layers.clear();
  EXPECT_EQ(key_figures(results)[0].label, "training step, batch 1");
}

TEST(ResultTables, TrainingAndThroughput) {
  const Results results = results_from(results_fixture());
  const ResultTable training = training_table(results), seeds = seed_table(results);
  ASSERT_EQ(training.rows.size(), 2u);
  EXPECT_EQ(cell(training, 0, "seconds a run"), "1.90 s");
  ASSERT_EQ(seeds.rows.size(), 5u);
  EXPECT_EQ(cell(seeds, 0, "custom accuracy"), "91.20%");
  EXPECT_EQ(loss_table(results).rows.size(), 200u);
  EXPECT_EQ(cell(difference_table(results), 0, "accuracy difference, points"), "+0.04");
  const ResultTable throughput = throughput_table(results, kInferenceSteps);
  ASSERT_EQ(throughput.rows.size(), 6u);
  EXPECT_EQ(cell(throughput, 5, "batch"), "1024");
}

TEST(ResultTables, TellWhatHaltedAndWhatCouldNotRun) {
  Results results = results_from(results_fixture());
  EXPECT_TRUE(not_run_table(results).rows.empty());
  EXPECT_EQ(training_table(results).columns.back().name, "same bits again");
  results.training->arms[1].halted_at = 17;
  results.training->arms[0].repeats = false;
  results.throughput[5].arms[1] = {.arm = {1}, .error = "out of memory"};
  const ResultTable training = training_table(results), not_run = not_run_table(results);
  EXPECT_EQ(cell(training, 0, "halted at step"), "-");
  EXPECT_EQ(cell(training, 1, "halted at step"), "17");
  EXPECT_EQ(tone(training, 1, "halted at step"), Tone::kBad);
  EXPECT_EQ(cell(training, 0, "same bits again"), "no");
  ASSERT_EQ(not_run.rows.size(), 1u);
  EXPECT_EQ(cell(not_run, 0, "batch"), "1024");
  EXPECT_EQ(cell(not_run, 0, "why it did not run"), "out of memory");
  EXPECT_EQ(cell(throughput_table(results, kTrainingSteps), 5, "cudnn µs"), "-");
}

TEST(ResultTables, TheMachineIsToldInFull) {
  const ResultTable table = environment_table(results_from(results_fixture()));
  const auto value = [&](const std::string& name) {
    for (const auto& row : table.rows) {
      if (row[0].text == name) return row[1].text;
    }
    return "nothing of " + name;
  };
  EXPECT_EQ(value("GPU"), "Invented GPU for tests");
  EXPECT_EQ(value("CUDA runtime"), "0.0");
  EXPECT_EQ(value("clock during the run"), "1,905 to 1,980 MHz");
  EXPECT_EQ(value("copy bandwidth (gpu, measured)"), "4,000 GB/s");
  EXPECT_EQ(value("throttled"), "no");
  Results throttled = results_from(results_fixture());
  throttled.environment.clocks->throttled = true;
  throttled.environment.clocks->reasons = {"power cap"};
  const ResultTable other = environment_table(throttled);
  EXPECT_TRUE(std::any_of(other.rows.begin(), other.rows.end(), [](const auto& row) {
    return row[1].text == "yes: power cap" && row[1].tone == Tone::kBad;
  }));
}

TEST(ResultTables, RowsAreAsLongAsTheHeading) {
  for (const Results& results : {results_from(results_fixture()), results_from(results_fixture(3)),
                                 results_from(mismatch_fixture()), small_results(), Results()}) {
    std::vector<ResultTable> tables = {
        fault_table(results),      training_table(results),
        seed_table(results),       difference_table(results),
        loss_table(results),       throughput_table(results, kTrainingSteps),
        environment_table(results)};
    for (const LayersSection& batch : results.layers) {
      for (const auto& make :
           {layer_table, rate_table, implementation_table, error_table, worst_error_table,
            error_ratio_table, roofline_table, totals_table}) {
        tables.push_back(make(results, batch));
      }
      tables.push_back(repeat_table(batch));
    }
    for (const ResultTable& table : tables) {
      for (const auto& row : table.rows) EXPECT_EQ(row.size(), table.columns.size());
    }
  }
}

}  // namespace
}  // namespace duet
