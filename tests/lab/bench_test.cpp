// bench in the process of the test: what it makes of implementations that cheat.
#include "lab/bench.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "compare/results/results_json.h"
#include "core/error.h"
#include "lab/bench_tables.h"
#include "support/doubles.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

BenchOptions options_for(const std::string& layer, const std::string& shape) {
  BenchOptions options;
  options.problems.layer = layer;
  options.problems.shape = shape;
  options.device = Device::kCpu;
  options.quick = true;
  return options;
}

/// Those that cheat in all passes, or in the backward passes alone.
void check_doubles_are_named(const std::string& layer, const std::string& shape, bool in_forward) {
  BenchOptions options = options_for(layer, "n=" + std::to_string(kBenchedBatch) + "," + shape);
  const Doubles all(Device::kCpu);
  std::vector<DoubleInfo> doubles;  // one of each fault
  for (const DoubleInfo& info : all.infos()) {
    const bool known = std::any_of(doubles.begin(), doubles.end(), [&](const DoubleInfo& other) {
      return other.fault == info.fault;
    });
    if (!known && info.in_forward == in_forward) doubles.push_back(info);
  }
  for (const DoubleInfo& info : doubles) options.impls.push_back(info.id);
  if (!in_forward) options.passes = {"backward"};
  std::ostringstream text;
  EXPECT_EQ(run_bench(options, text), kExitComparison);
  EXPECT_EQ(text.str().find("agreement"), std::string::npos) << "a table of times\n" << text.str();
  EXPECT_EQ(text.str().find("GFLOP/s"), std::string::npos);
  for (const DoubleInfo& info : doubles) {
    const std::string line = "  " + info.id + ": " + std::string(to_string(info.fault)) + ": ";
    size_t count = 0;
    for (size_t at = 0; (at = text.str().find(line, at)) != std::string::npos; ++at) ++count;
    EXPECT_EQ(count, info.in_forward ? 3u : 2u) << "one a pass of '" << line << "' in\n"
                                                << text.str();
  }
}

TEST(Bench, NamesEveryCheatAmongLinears) {
  check_doubles_are_named("linear", "in=37,out=29", true);
  check_doubles_are_named("linear", "in=37,out=29", false);
}

TEST(Bench, NamesEveryCheatAmongConvolutions) {
  // Less than is worth sharing (core/parallel.h): the one that returns early computes in a thread
  // whose name ThreadSanitizer is told, and not in those of the pool.
  check_doubles_are_named("conv2d", "c=3,h=8,w=7,k=5,r=3,s=3,pad=1", true);
  check_doubles_are_named("conv2d", "c=3,h=8,w=7,k=5,r=3,s=3,pad=1", false);
}

TEST(Bench, ACheatGetsNoTimeBesideASoundOne) {
  const Doubles doubles(Device::kCpu);
  BenchOptions options = options_for("linear", "n=4,in=37,out=29");
  options.impls = {"cpu_double_zeros", "cpu_reference"};
  options.passes = {"forward"};
  options.json = true;
  std::ostringstream text;
  EXPECT_EQ(run_bench(options, text), kExitComparison);
  const json results = json::parse(text.str());
  ASSERT_EQ(results["rows"].size(), 1u);
  const json& row = results["rows"][0];
  ASSERT_EQ(row["arms"].size(), 2u);
  EXPECT_EQ(row["arms"][0]["implementation"], "cpu_reference");
  EXPECT_GT(row["arms"][0]["us"]["median"], 0.0);
  EXPECT_EQ(row["baseline"], 0);
  EXPECT_TRUE(row["ratios"].empty());
  const json& cheat = row["arms"][1];
  EXPECT_EQ(cheat["implementation"], "cpu_double_zeros");
  EXPECT_EQ(cheat["agrees"], false);
  for (const char* key : {"us", "cold_us", "gflop_per_s", "gb_per_s", "share_of_floor"}) {
    EXPECT_TRUE(cheat[key].is_null()) << key;
  }
  const std::string shown = bench_row_text(JsonReader::read<BenchRow>(row));
  EXPECT_EQ(shown.find("cpu_double_zeros "), std::string::npos) << "in the table\n" << shown;
  EXPECT_TRUE(has(shown, "  cpu_double_zeros: zeros: returns zeros"));
  EXPECT_EQ(bench_faults_text(JsonReader::read<BenchResults>(results)),
            "wrong: linear forward cpu_double_zeros (zeros)");
}

TEST(Bench, ShowsWhichElementsAreWrong) {
  const Doubles doubles(Device::kCpu);
  BenchOptions options = options_for("linear", "n=4,in=37,out=29");
  options.impls = {"cpu_double_half"};
  options.passes = {"forward"};
  options.check_only = true;
  std::ostringstream text;
  EXPECT_EQ(run_bench(options, text), kExitComparison);
  EXPECT_TRUE(has(text.str(), "\n    axis 0: 2 to 3 of 4; axis 1: all 29\n    0\\1 0123",
                  "\n      2 NNNN", "N unwritten"))
      << text.str();
}

/// Asks for a workspace that no machine has, for large batches.
class AsksForTooMuch : public DoubleBase {
 public:
  AsksForTooMuch(std::unique_ptr<Implementation> sound, int64_t batch)
      : DoubleBase(std::move(sound)), batch_(batch) {}
  size_t workspace_bytes(Pass pass) const override {
    return batch_ > 100 ? size_t{1} << 60 : sound_->workspace_bytes(pass);
  }
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    sound_->run(pass, run, tensors);
  }

 private:
  const int64_t batch_;
};

TEST(Bench, AWorkspaceThatCannotBeHadIsRefusedBesideTheRowsBefore) {
  const InList<LinearProblem> listed(
      linear_impls(),
      {{"cpu_double_greedy", supports_all,
        [](const LinearProblem& problem, Context& context) -> std::unique_ptr<Implementation> {
          return std::make_unique<AsksForTooMuch>(make_sound(linear_impls(), problem, context),
                                                  problem.n);
        }}});
  BenchOptions options = options_for("linear", "n=4,in=37,out=29");
  options.problems.batch = "4,128";
  options.impls = {"cpu_double_greedy", "cpu_reference"};
  options.passes = {"forward"};
  options.json = true;
  std::ostringstream text;
  EXPECT_EQ(run_bench(options, text), kExitComparison);
  const json rows = json::parse(text.str())["rows"];
  ASSERT_EQ(rows.size(), 2u);
  for (const json& arm : rows[0]["arms"]) EXPECT_TRUE(arm["agrees"]) << arm["faults"];
  EXPECT_EQ(rows[1]["arms"][0]["implementation"], "cpu_reference");
  EXPECT_TRUE(rows[1]["arms"][0]["agrees"]) << rows[1]["arms"][0]["faults"];
  const json& greedy = rows[1]["arms"][1];
  EXPECT_EQ(greedy["implementation"], "cpu_double_greedy");
  EXPECT_TRUE(greedy["us"].is_null());
  EXPECT_TRUE(has(greedy["faults"][0]["text"].get<std::string>(),
                  "failed: takes a workspace of 1.1e+12 MiB", "there is room for"));
  options.json = false;
  std::ostringstream shown;
  EXPECT_EQ(run_bench(options, shown), kExitComparison);
  EXPECT_TRUE(has(shown.str(), "cpu_double_greedy: failed: takes a workspace")) << shown.str();
  EXPECT_FALSE(has(shown.str(), "failed: failed")) << shown.str();
}

TEST(Bench, TheFasterOneIsShownAsTheFasterOne) {
  // The reference takes more than ten times as long: clear on a busy machine too.
  BenchOptions options = options_for("linear", "n=64,in=512,out=256");
  options.impls = {"cpu_blas", "cpu_reference"};
  options.passes = {"forward"};
  options.json = true;
  std::ostringstream text;
  EXPECT_EQ(run_bench(options, text), kExitDone);
  const json row = json::parse(text.str())["rows"][0];
  EXPECT_EQ(row["arms"][0]["implementation"], "cpu_blas");
  EXPECT_EQ(row["arms"][1]["implementation"], "cpu_reference");
  EXPECT_LT(row["arms"][0]["us"]["median"], row["arms"][1]["us"]["median"]);
  EXPECT_EQ(row["baseline"], 0);
  ASSERT_EQ(row["ratios"].size(), 1u);
  const json& ratio = row["ratios"][0];  // of the reference, beside the baseline
  EXPECT_EQ(ratio["a"], 1);
  EXPECT_EQ(ratio["b"], 0);
  EXPECT_LT(ratio["speedup"], 0.5) << ratio;
  EXPECT_EQ(ratio["verdict"], "slower") << ratio;
}

TEST(Bench, ShowsARowWithItsBaseline) {
  const json row = json::parse(R"({
    "layer": "conv1", "type": "conv2d", "pass": "forward", "problem": "n=64 c=1", "flops": 5e7,
    "bytes": 2097152, "floor_us": 4.0, "repeat": "bench conv2d --shape n=64,c=1 --pass forward",
    "baseline": 1,
    "arms": [
      {"implementation": "custom_direct", "agrees": true, "detail": "", "workspace_bytes": 0,
       "faults": [], "tensors": [{"share_of_limit": 0.1}, {"share_of_limit": 0.37}],
       "us": {"median": 10.0, "p20": 9.9, "p80": 10.1}, "cold_us": null,
       "gflop_per_s": 5000.0, "gb_per_s": 200.0, "share_of_floor": 0.4},
      {"implementation": "cudnn", "agrees": true, "detail": "ALGO_1", "workspace_bytes": 1024,
       "faults": [], "tensors": [{"share_of_limit": 0.5}],
       "us": {"median": 21.1, "p20": 21.0, "p80": 21.2}, "cold_us": null,
       "gflop_per_s": 2370.0, "gb_per_s": 99.4, "share_of_floor": 0.19}],
    "ratios": [{"a": 0, "b": 1, "speedup": 2.11, "low": 2.08, "high": 2.13, "verdict": "faster"}],
    "unsupported": [{"implementation": "custom_winograd", "reason": "takes 3x3 kernels"}]})");
  EXPECT_EQ(bench_row_text(JsonReader::read<BenchRow>(row)),
            "conv1: conv2d forward\n"
            "n=64 c=1\n"
            "floor 4.00 us: 50.0 MFLOP, 2.0 MiB\n"
            "implementation  agreement    us    p20 to p80  % of cudnn         95%  verdict  "
            "% of floor  GFLOP/s  GB/s  workspace  detail\n"
            "custom_direct   ok 37%     10.0  9.90 to 10.1         211  208 to 213  faster   "
            "        40    5,000   200          -\n"
            "cudnn           ok 50%     21.1  21.0 to 21.2         100           -  -        "
            "        19    2,370  99.4    1.0 KiB  ALGO_1\n"
            "cannot do this:\n"
            "  custom_winograd: takes 3x3 kernels\n"
            "again: bench conv2d --shape n=64,c=1 --pass forward\n");
}

TEST(Bench, SumsUpSeveralProblems) {
  const json results = json::parse(R"({"rows": [
    {"type": "relu", "pass": "forward", "repeat": "bench relu --shape n=1,c=2 --pass forward",
     "floor_us": 0.5,
     "arms": [{"implementation": "a", "agrees": true, "us": {"median": 1.0}},
              {"implementation": "b", "agrees": true, "us": {"median": 2.0}}]},
    {"type": "relu", "pass": "forward", "repeat": "bench relu --shape n=8,c=2 --pass forward",
     "floor_us": 1.5,
     "arms": [{"implementation": "b", "agrees": true, "us": {"median": 3.0}},
              {"implementation": "a", "agrees": false, "us": null}]},
    {"type": "tanh", "pass": "forward", "repeat": "", "floor_us": 1.5, "arms": []}]})");
  EXPECT_EQ(bench_scan_text(JsonReader::read<BenchResults>(results)),
            "relu forward, us\n"
            "problem      a     b  floor  fastest\n"
            "n=1,c=2   1.00  2.00  0.500  a\n"
            "n=8,c=2  wrong  3.00   1.50  b\n"
            "\n");
}

TEST(Bench, RefusesWhatCannotBeMeant) {
  std::ostringstream text;
  BenchOptions options = options_for("linear", "n=4,in=37,out=29");
  options.impls = {"cpu_blass"};
  EXPECT_THROW(run_bench(options, text), ConfigError);
  options.impls = {"custom"};
  EXPECT_THROW(run_bench(options, text), ConfigError);  // on the CPU
  options.impls = {};
  options.passes = {"backwards"};
  EXPECT_THROW(run_bench(options, text), ConfigError);
  options = options_for("relu", "n=4,in=37");
  options.impls = {"cpu_blas"};
  EXPECT_THROW(run_bench(options, text), UnsupportedError);  // relu has none
  EXPECT_EQ(text.str(), "");
}

}  // namespace
}  // namespace duet
