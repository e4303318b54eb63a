// Implementations that crash, exit or hang: compare keeps what was measured before and goes on with
// what they have no part in. It forks, which needs a process without other threads: a death test's.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "compare/compare.h"
#include "core/error.h"
#include "core/running.h"
#include "layers/linear/linear.h"
#include "support/death_test_file.h"
#include "support/double_base.h"
#include "support/small_comparison.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;

enum class RowEnd { kSegfault, kExit, kLoop };
enum class Where { kByItself, kBatchOf4, kEverywhere };

/// A sound implementation of linear that ends its process in forward, there.
template <RowEnd kEnd, Where kWhere>
class EndingRow : public DoubleBase {
 public:
  EndingRow(std::unique_ptr<Implementation> sound, int64_t batch)
      : DoubleBase(std::move(sound)), batch_(batch) {}
  void run(Pass pass, const Run& run, const LayerTensors& tensors) override {
    const bool in_network = has(Running::last(), "(layer ");
    const bool there = kWhere == Where::kByItself   ? !in_network
                       : kWhere == Where::kBatchOf4 ? batch_ == 4
                                                    : true;
    if (pass == Pass::kForward && there) end();
    sound_->run(pass, run, tensors);
  }

 private:
  static void end() {
    static volatile uintptr_t nowhere = 8;  // compilers warn of what they know
    if (kEnd == RowEnd::kSegfault) *reinterpret_cast<volatile int*>(nowhere) = 1;
    if (kEnd == RowEnd::kExit) std::exit(0);
    while (kEnd == RowEnd::kLoop && nowhere) {
    }
  }

  const int64_t batch_;
};

template <RowEnd kEnd, Where kWhere>
std::unique_ptr<Implementation> make_ending(const LinearProblem& problem, Context& context) {
  return std::make_unique<EndingRow<kEnd, kWhere>>(
      make_sound(linear_impls(), "cpu_blas", problem, context), problem.n);
}

template <RowEnd kEnd, Where kWhere>
[[noreturn]] void compare() {
  const InList<LinearProblem> listed(
      linear_impls(), {{"cpu_double_ends", supports_all, make_ending<kEnd, kWhere>}});
  const ComparisonFolder folder;
  CompareOptions options;
  options.arms = folder.options({"cpu_blas", "cpu_double_ends"});
  options.quick = true;
  options.seeds = 1;
  options.batches = {2, 4, 16};
  options.isolate = true;
  options.patience = std::chrono::seconds(2);
  options.out = death_test_file();
  try {
    _exit(run_compare(options));
  } catch (const Error& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    _exit(error.exit_code());
  }
}

class ComparisonIsolationDeathTest : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    death_test_file();
  }
  const testing::ExitedWithCode failed_ = testing::ExitedWithCode(kExitFailure);
};

TEST_F(ComparisonIsolationDeathTest, ACrashInARowCostsTheRowsOfItsLayer) {
  EXPECT_EXIT((compare<RowEnd::kSegfault, Where::kByItself>()), failed_,
              "layers, fc1 forward: cpu_double_ends in linear forward ");
  const json results = take_death_test_file();
  EXPECT_TRUE(has(results["stopped"].get<std::string>(), "layers, fc1 forward: cpu_double_ends "));
  const json& layers = results["layers"][0];
  int ended = 0;
  for (const json& row : layers["rows"]) {
    if (!row.contains("problem")) continue;  // no layer
    const bool ends = row["layer"] == "fc1";
    ended += ends;
    EXPECT_FALSE(row["arms"][0]["us"].is_null()) << row;
    EXPECT_EQ(row["arms"][1]["us"].is_null(), ends) << row;
    if (!ends) continue;
    EXPECT_EQ(row["arms"][1]["faults"][0]["kind"], "failed");
    EXPECT_TRUE(
        has(row["arms"][1]["faults"][0]["text"].get<std::string>(), "and was not run again"));
  }
  EXPECT_EQ(ended, 3);
  EXPECT_TRUE(layers.contains("totals"));
  EXPECT_TRUE(results.contains("training"));
  EXPECT_EQ(results["throughput"].size(), 3u);
  EXPECT_FALSE(results["summary"]["ok"].get<bool>());
}

TEST_F(ComparisonIsolationDeathTest, AnExitCostsTheBatchThatItEnds) {
  EXPECT_EXIT((compare<RowEnd::kExit, Where::kBatchOf4>()), failed_,
              "throughput at batch 4: cpu_double_ends in linear forward \\(layer fc1\\) ended the "
              "process with exit code 0");
  const json results = take_death_test_file();
  EXPECT_TRUE(results["layers"][0].contains("totals"));
  EXPECT_TRUE(results.contains("training"));
  ASSERT_EQ(results["throughput"].size(), 2u);
  EXPECT_EQ(results["throughput"][0]["batch"], 2);
  EXPECT_EQ(results["throughput"][1]["batch"], 16);
  for (const json& row : results["throughput"]) {
    for (const json& arm : row["arms"]) EXPECT_TRUE(arm.contains("training_us")) << arm;
  }
}

TEST_F(ComparisonIsolationDeathTest, AnEndlessLoopCostsTheBatchThatItEnds) {
  EXPECT_EXIT((compare<RowEnd::kLoop, Where::kBatchOf4>()), failed_,
              "throughput at batch 4: cpu_double_ends has not ended after 2 s");
  EXPECT_EQ(take_death_test_file()["throughput"].size(), 2u);
}

TEST_F(ComparisonIsolationDeathTest, WhatEndsEverythingIsNamed) {
  EXPECT_EXIT((compare<RowEnd::kExit, Where::kEverywhere>()), failed_,
              "error: .*: cpu_double_ends in linear forward \\(layer fc1\\) ended the process");
  EXPECT_TRUE(take_death_test_file().is_null());
}

}  // namespace
}  // namespace duet
