// What results say in their first lines, on a console, and what --fail-on makes of them.
#include "compare/results/results_json.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "compare/results/records.h"
#include "compare/results_fixture.h"
#include "compare/tables/markdown.h"
#include "compare/tables/summary.h"
#include "compare/tables/tables.h"
#include "core/error.h"
#include "measure/time/environment.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

json ratio(const char* verdict, double speedup, double low, double high) {
  return {{"a", 0},     {"b", 1},       {"speedup", speedup},
          {"low", low}, {"high", high}, {"verdict", verdict}};
}

json results_with(const json& ratio) {
  return {{"arms", {{{"name", "x"}}, {{"name", "y"}}}},
          {"throughput", {{{"batch", 8}, {"training_ratios", {ratio}}}}}};
}

std::vector<std::string> failures_of(const json& results, const FailOn& fail_on) {
  return failures(results_from(results), fail_on);
}

std::vector<std::string> headlines_of(const json& results) {
  return summarise(results_from(results)).headlines;
}

TEST(Results, FailOnNeedsAClearDifference) {
  const auto strikes = [](const json& ratio, const std::string& word) {
    return failures_of(results_with(ratio), read_fail_on({word})).size();
  };
  EXPECT_EQ(strikes(ratio("slower", 0.9, 0.88, 0.92), "slower"), 1u);
  EXPECT_EQ(strikes(ratio("slower", 0.9, 0.88, 0.92), "slower:0.95"), 1u);
  EXPECT_EQ(strikes(ratio("slower", 0.9, 0.88, 0.92), "slower:0.9"), 0u);  // not clearly below
  EXPECT_EQ(strikes(ratio("same", 0.985, 0.981, 0.99), "slower"), 0u);
  EXPECT_EQ(strikes(ratio("unclear", 0.8, 0.5, 0.98), "slower"), 0u);
  EXPECT_EQ(strikes(ratio("faster", 1.2, 1.1, 1.3), "slower"), 0u);
  EXPECT_EQ(strikes(ratio("faster", 1.2, 1.1, 1.3), "slower:1.5"), 1u);
  // More than equal is asked for: the interval alone decides.
  EXPECT_EQ(strikes(ratio("same", 1, 0.99, 1.01), "slower:1.5"), 1u);
  EXPECT_EQ(strikes(ratio("unclear", 1, 0.7, 1.3), "slower:1.5"), 1u);
  EXPECT_EQ(strikes(ratio("unclear", 1.3, 0.9, 1.7), "slower:1.5"), 0u);
}

TEST(Results, TheSameCodeIsNeitherFasterNorSlower) {
  const json same = {{"a", 0}, {"b", 1}, {"verdict", kSameCode}, {"spread", {0.5, 3.5}}};
  json results = results_with(same);
  EXPECT_TRUE(failures_of(results, read_fail_on({"slower"})).empty());
  EXPECT_TRUE(failures_of(results, read_fail_on({"slower:1.5"})).empty());
  EXPECT_EQ(headlines_of(results),
            std::vector<std::string>({"training: x and y run the same code"}));
  results["throughput"].push_back({{"batch", 9}, {"training_ratios", {ratio("same", 1, 1, 1)}}});
  EXPECT_EQ(headlines_of(results).size(), 1u);
  results = {{"arms", results["arms"]}, {"training", {{"batch", 8}, {"step_ratios", {same}}}}};
  EXPECT_EQ(headlines_of(results),
            std::vector<std::string>(
                {"x and y run the same code in a training step of batch 8 (times spread "
                 "from 0.500 to 3.50 of their median)"}));
}

TEST(Results, WhatTheMachineDidStandsBesideTheHeadlineWhereItMatters) {
  Results results = results_from(results_with(ratio("same", 1, 0.99, 1.01)));
  const auto lines = [&](double waited, double others, double throttled) {
    results.environment.load = record_of(LoadReport{true, 2, others, waited, 11.2});
    results.environment.clocks = record_of(ClockReport{
        100, 1200, 1980, 70, static_cast<int>(100 * throttled), {"power cap in some samples"}});
    std::string text;
    for (const std::string& line : summarise(results).headlines) text += line + "\n";
    return text;
  };
  EXPECT_EQ(lines(0.01, 0.1, 0.01).find("busy"), std::string::npos);
  EXPECT_EQ(lines(0.01, 0.1, 0.01).find("slowed"), std::string::npos);
  for (const std::string& text : {lines(0.5, 0.1, 0), lines(0, 0.3, 0)}) {
    EXPECT_TRUE(has(text, "the machine was busy: other processes took", "of 2 cores"));
    EXPECT_LT(text.find('\n', text.find("busy")) - text.find("the machine"), 120u) << text;
    EXPECT_TRUE(has(text, "(load average 11.2)"));
  }
  EXPECT_TRUE(has(lines(0, 0, 0.2),
                  "the GPU was slowed down: power cap in some samples; its clock "
                  "was between 1,200 and 1,980 MHz"));
}

TEST(Results, ListsThatAreLongerThanTheyCanBeAreRefused) {
  const TemporaryFolder folder;
  const auto refusal = [&](const json& part) {
    json results = {{"schema", kResultsSchema}, {"arms", {{{"name", "x"}}, {{"name", "y"}}}}};
    results.update(part);
    std::ofstream(folder / "r.json") << results;
    return error_of<DataError>([&] { load_results(folder / "r.json"); });
  };
  const json empty = json::object(), three = {empty, empty, empty};
  const json many(10'001, empty);
  EXPECT_TRUE(has(refusal({{"layers", many}}), "'layers' has 10001 entries, more than 10000"));
  EXPECT_TRUE(has(refusal({{"throughput", many}}), "'throughput' has 10001 entries"));
  EXPECT_TRUE(has(refusal({{"arms", json::array({{{"name", "x"}, {"network", many}}})}}),
                  "'arms[0].network' has 10001 entries"));
  EXPECT_TRUE(has(refusal({{"layers", json::array({{{"totals", three}}})}}),
                  "'layers[0].totals' has 3 entries, more than the 2 arms"));
  const json rows = json::array({{{"arms", three}}});
  EXPECT_TRUE(has(refusal({{"layers", json::array({{{"rows", rows}}})}}),
                  "'layers[0].rows[0].arms' has 3 entries"));
  EXPECT_TRUE(has(refusal({{"throughput", rows}}), "'throughput[0].arms' has 3 entries"));
  EXPECT_TRUE(has(refusal({{"training", {{"arms", three}}}}), "'training.arms' has 3 entries"));
}

TEST(Results, FailOnListsAStepOnce) {
  json results = results_with(ratio("slower", 0.9, 0.88, 0.92));
  const json step = {{"batch", 8}, {"step_ratios", {ratio("slower", 0.9, 0.88, 0.92)}}};
  results["layers"] = {step};
  results["training"] = step;
  EXPECT_EQ(failures_of(results, read_fail_on({"slower"})).size(), 1u);
}

TEST(Results, FailOnNeedsSomethingToCompare) {
  json results = results_with(ratio("same", 1, 0.99, 1.01));
  const auto lines = [&] { return failures_of(results, read_fail_on({"mismatch", "slower"})); };
  EXPECT_EQ(lines(),
            (std::vector<std::string>{
                "mismatch: nothing to compare: neither layers nor training were compared"}));
  results["layers"] = {{{"rows", {{{"arms", {{{"agrees", true}}}}}}}}};
  EXPECT_EQ(lines(), std::vector<std::string>());
  results["throughput"] = {{{"batch", 8}, {"training_ratios", json::array()}}};
  EXPECT_EQ(
      lines(),
      (std::vector<std::string>{"slower: nothing to compare: no step was timed in two arms"}));
}

TEST(Results, FailOnReadsItsWords) {
  EXPECT_TRUE(read_fail_on({"mismatch"}).mismatch);
  EXPECT_EQ(read_fail_on({"slower"}).ratio, 1.0);
  EXPECT_EQ(read_fail_on({"slower:0.95", "mismatch"}).ratio, 0.95);
  // All of them.
  EXPECT_TRUE(has(error_of<ConfigError>([] {
                    read_fail_on({"mismatches", "slower:", "slower:nan"});
                  }),
                  "did you mean 'mismatch'?", "slower:: ", "slower:nan"));
}

TEST(Results, TheFirstMismatchComesFirst) {
  Results results = results_from(mismatch_fixture());
  results.summary = summarise(results);
  EXPECT_FALSE(results.summary.ok);
  const Mismatch& first = results.summary.first_mismatch.value();
  EXPECT_EQ(first.pass, "forward");
  EXPECT_TRUE(results_text(results).starts_with("MISMATCH first in " + first.layer));
  EXPECT_EQ(failures(results, read_fail_on({"mismatch"})).size(), 1u);
  results.summary = {};
  EXPECT_EQ(failures(results, read_fail_on({"mismatch"})).size(), 1u);

  const Results right = results_from(results_fixture());
  EXPECT_TRUE(summarise(right).ok);
  EXPECT_TRUE(failures(right, read_fail_on({"mismatch"})).empty());
}

TEST(Results, TrainingsThatPartAreMismatches) {
  const auto mismatch_of = [](const json& training) {
    const auto first = summarise(results_from({{"arms", {{{"name", "x"}}, {{"name", "y"}}}},
                                               {"training", training}}))
                           .first_mismatch;
    return first ? first->arm + ": " + first->text : "";
  };
  const json forgetful = {{"arms", {{{"arm", 0}, {"repeats", false}}}}};
  EXPECT_TRUE(has(mismatch_of(forgetful), "x: its losses differ"));
  const json apart = {
      {"differences", {{{"a", 0}, {"b", 1}, {"losses_agree", false}, {"first_10_share", 0.3}}}}};
  EXPECT_TRUE(has(mismatch_of(apart), "first ten steps (30%"));
  const json worse = {{"differences", {{{"a", 0}, {"b", 1}, {"verdict", "different"}}}}};
  EXPECT_TRUE(has(mismatch_of(worse), "accuracy"));
  EXPECT_EQ(mismatch_of({{"differences", {{{"a", 0}, {"b", 1}, {"verdict", "unclear"}}}}}), "");
  json diverged = {{"differences", {{{"a", 0}, {"b", 1}, {"verdict", "diverged"}}}},
                   {"arms", {{{"arm", 0}}, {{"arm", 1}, {"halted_seeds", {3}}}}}};
  EXPECT_EQ(mismatch_of(diverged), "y: its training diverged, that of x did not");
  diverged["arms"][0]["halted_at"] = 7;  // both
  EXPECT_EQ(mismatch_of(diverged), "");
  const auto lines = failures_of(
      {{"arms", {{{"name", "x"}}, {{"name", "y"}}}}, {"training", diverged}}, {.mismatch = true});
  ASSERT_EQ(lines.size(), 1u);  // nothing was compared
  EXPECT_TRUE(has(lines[0], "nothing to compare after training"));
  const json idle = {{{"layer", ""}, {"pass", ""}, {"text", "computes less"}}};
  EXPECT_EQ(mismatch_of({{"arms", {{{"arm", 0}, {"step_faults", idle}}}}}), "x: computes less");
}

TEST(Results, TablesCopeWithWhateverIsMissing) {
  EXPECT_FALSE(results_text(Results()).empty());
  const json arms = {{{"name", "x"}}, {{"name", "y"}}};
  const json empty = json::object();
  for (const json& part :
       {empty, json{{"layers", {{{"rows", {{{"arms", {nullptr, empty}}}}}}}}},
        json{{"training", {{"arms", {{{"arm", 1}}}}, {"differences", {{{"a", 0}, {"b", 1}}}}}}},
        json{{"throughput", {empty}}}}) {
    json whole = part;
    whole["arms"] = arms;
    const Results results = results_from(whole);
    EXPECT_FALSE(results_text(results).empty());
    EXPECT_TRUE(summarise(results).ok);
  }
}

// What has the wrong form is refused, with its place in the file.
TEST(Results, WrongFormsAreLocated) {
  const auto refusal = [](const json& part) {
    json whole = {{"arms", {{{"name", "x"}}, {{"name", "y"}}}}};
    whole.update(part);
    return error_of<DataError>([&] { results_from(whole); });
  };
  EXPECT_EQ(refusal({{"layers", 3}}), "'layers' is 3, not a list; the file is damaged");
  EXPECT_TRUE(has(refusal({{"layers", {nullptr}}}), "'layers[0]' is null, not an object"));
  EXPECT_TRUE(has(refusal({{"training", "x"}}), "'training' is \"x\", not an object"));
  EXPECT_TRUE(has(refusal({{"seconds", true}}), "'seconds' is true, not a number"));
  EXPECT_TRUE(has(refusal({{"name", json::array()}}), "'name' is array, not a text"));
  EXPECT_TRUE(has(refusal({{"training", {{"arms", {{{"loss", {1, "x"}}, {"arm", 0}}}}}}}),
                  "'training.arms[0].loss[1]' is \"x\", not a number"));
  EXPECT_TRUE(has(refusal({{"environment", {{"versions", {{"CUDA"}}}}}}),
                  "'environment.versions[0]' is array, not a list of two"));
  EXPECT_TRUE(has(refusal({{"training", {{"step_ratios", {{{"a", 0}}}}}}}),
                  "'training.step_ratios[0].b' is missing"));
  EXPECT_TRUE(has(refusal({{"arms", json::array()}}), "'arms' is not a list of at least one arm"));
  EXPECT_TRUE(has(refusal({{"arms", {{{"name", ""}}}}}), "'arms' is not a list of named arms"));
  EXPECT_NE(error_of<DataError>([] { results_from(json()); }), "");
}

// Numbers that are no place, count or size are never converted to one.
TEST(Results, ImpossibleNumbersAreLocated) {
  const json whole = results_fixture();
  for (const char* place :
       {"/layers/0/batch", "/layers/1/step_ratios/0/a", "/layers/0/totals/1/arm",
        "/layers/0/totals/1/memory_bytes", "/layers/0/rows/3/ratios/0/b",
        "/layers/0/rows/3/arms/1/workspace_bytes", "/training/arms/1/arm",
        "/training/arms/0/halted_at", "/training/differences/0/b", "/training/seeds/2",
        "/throughput/0/training_ratios/0/b", "/throughput/5/arms/1/arm", "/environment/cpu_threads",
        "/environment/gpu_memory_bytes"}) {
    for (const double number : {-1.0, 0.5, 1e300, -1e300, 1e19}) {
      json results = whole;
      results[json::json_pointer(place)] = number;
      const std::string error = error_of<DataError>([&] { results_from(results); });
      EXPECT_TRUE(has(error, std::string(place).substr(std::string(place).rfind('/') + 1), "not "))
          << place << " " << number << ": " << error;
    }
  }
  // A time can be anything; tables show it.
  for (const double number : {-1.0, 1e300, -1e300, 1e19}) {
    json results = whole;
    results["seconds"] = results["training"]["arms"][0]["step_us"] = number;
    const Results read = results_from(results);
    EXPECT_EQ(results_text(read).find("922337203685477"), std::string::npos);
    EXPECT_EQ(results_markdown(read).find("1844674407"), std::string::npos);
  }
}

TEST(Results, WhatIsReadIsWrittenAgain) {
  for (const json& whole : {results_fixture(), results_fixture(3), mismatch_fixture()}) {
    const json once = to_json(results_from(whole));
    EXPECT_EQ(to_json(results_from(once)), once);
    EXPECT_EQ(once["layers"][0]["rows"][0]["arms"][1]["us"],
              whole["layers"][0]["rows"][0]["arms"][1]["us"]);
    EXPECT_EQ(once["training"]["arms"][1]["loss"], whole["training"]["arms"][1]["loss"]);
  }
  // Published files, to the byte.
  for (const char* name : {"fashion_mnist_cnn_batch64.json", "fashion_mnist_cnn_batch1024.json"}) {
    const std::filesystem::path path = std::string(DUET_SOURCE_DIR "/docs/results/") + name;
    std::ifstream file(path);
    const std::string text(std::istreambuf_iterator<char>(file), {});
    EXPECT_TRUE(file_text(to_json(load_results(path))) == text) << name;
  }
}

TEST(Results, TablesFitAConsole) {
  Results results = results_from(results_fixture());
  results.summary = summarise(results);
  const std::string text = results_text(results);
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 140u) << line;
  EXPECT_TRUE(has(text, "layers, batch 64", "the whole step, batch 1,024", "of limit",
                  "throughput in inference", "seed"));
  // More than two arms: each against the first.
  EXPECT_TRUE(has(results_text(results_from(results_fixture(3))), "against "));
}

TEST(Environment, SaysWhereSomethingWasMeasured) {
  const Environment environment = read_environment();
  EXPECT_FALSE(environment.cpu.empty());
  EXPECT_GE(environment.cpu_threads, 1);
  EXPECT_TRUE(has(environment.os, "Linux"));
  EXPECT_FALSE(environment.compiler.empty());
  EXPECT_FALSE(environment.versions.empty());
  EXPECT_EQ(environment.gpu.empty(), environment.gpu_memory_bytes == 0);
}

// A process that crashed has its samples, and those after it go by its ceilings.
TEST(Results, OfTwoProcessesAreAddedUp) {
  const auto first = record_of(ClockReport{.samples = 10,
                                           .sm_mhz_min = 1500,
                                           .sm_mhz_max = 1700,
                                           .temperature_c_max = 60,
                                           .slowed_samples = 5,
                                           .reasons = {"power cap in 5 of 10 samples"}});
  const auto second = record_of(
      ClockReport{.samples = 30, .sm_mhz_min = 1600, .sm_mhz_max = 1800, .temperature_c_max = 50});
  const ClockRecord all = *both(first, second);
  EXPECT_EQ(all.samples, 40);
  EXPECT_EQ(all.sm_mhz_min, 1500);
  EXPECT_EQ(all.sm_mhz_max, 1800);
  EXPECT_EQ(all.temperature_c_max, 60);
  EXPECT_DOUBLE_EQ(all.throttled_share, 5.0 / 40);
  EXPECT_EQ(all.throttled, true);
  EXPECT_EQ(all.reasons.size(), 1u);
  EXPECT_EQ(both(first, std::nullopt)->samples, 10);
  EXPECT_EQ(both(std::nullopt, second)->samples, 30);
  const auto load = both(LoadRecord{.cores = 4, .others_share = 0.1, .waited_share = 0.3},
                         LoadRecord{.cores = 4, .others_share = 0.2, .waited_share = 0.1});
  EXPECT_EQ(load->others_share, 0.2);
  EXPECT_EQ(load->waited_share, 0.3);

  const Ceilings ceilings = {.copy_bytes_per_second = 3.3e12,
                             .fp32_flops_per_second = 6e13,
                             .tf32_flops_per_second = 3e14,
                             .launch_seconds = 1.5e-6};
  const Ceilings kept = ceilings_of(rates_of(ceilings, Device::kGpu));
  EXPECT_DOUBLE_EQ(kept.copy_bytes_per_second, ceilings.copy_bytes_per_second);
  EXPECT_DOUBLE_EQ(kept.fp32_flops_per_second, ceilings.fp32_flops_per_second);
  EXPECT_DOUBLE_EQ(kept.tf32_flops_per_second, ceilings.tf32_flops_per_second);
  EXPECT_DOUBLE_EQ(kept.launch_seconds, ceilings.launch_seconds);
  EXPECT_EQ(ceilings_of(rates_of(ceilings, Device::kCpu)).launch_seconds, 0);
}

}  // namespace
}  // namespace duet
