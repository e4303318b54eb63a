// What results say in their first lines, on a console, and what --fail-on makes of them.
#include "compare/results.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "compare/fields.h"
#include "compare/format.h"
#include "compare/markdown.h"
#include "compare/results_fixture.h"
#include "compare/tables.h"
#include "core/error.h"
#include "measure/environment.h"
#include "support/temporary_folder.h"
#include "support/text.h"

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

TEST(Results, FailOnNeedsAClearDifference) {
  const auto strikes = [](const json& ratio, const std::string& word) {
    return failures(results_with(ratio), read_fail_on({word})).size();
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
  EXPECT_TRUE(failures(results, read_fail_on({"slower"})).empty());
  EXPECT_TRUE(failures(results, read_fail_on({"slower:1.5"})).empty());
  EXPECT_EQ(summarise_results(results)["headlines"],
            json::array({"training: x and y run the same code"}));
  results["throughput"].push_back({{"batch", 9}, {"training_ratios", {ratio("same", 1, 1, 1)}}});
  EXPECT_EQ(summarise_results(results)["headlines"].size(), 1u);
  results = {{"arms", results["arms"]}, {"training", {{"batch", 8}, {"step_ratios", {same}}}}};
  EXPECT_EQ(summarise_results(results)["headlines"],
            json::array({"x and y run the same code in a training step of batch 8 (times spread "
                         "from 0.500 to 3.50 of their median)"}));
}

TEST(Results, WhatTheMachineDidStandsBesideTheHeadlineWhereItMatters) {
  json results = results_with(ratio("same", 1, 0.99, 1.01));
  const auto lines = [&](double waited, double others, double throttled) {
    results["environment"] = {{"load", load_json({true, 2, others, waited, 11.2})},
                              {"clocks", clocks_json({100,
                                                      1200,
                                                      1980,
                                                      70,
                                                      static_cast<int>(100 * throttled),
                                                      {"power cap in some samples"}})}};
    const json headlines = summarise_results(results)["headlines"];
    std::string text;
    for (const json& line : headlines) text += line.get<std::string>() + "\n";
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
  EXPECT_TRUE(has(refusal({{"layers", many}}), "10001 batches of 'layers', more than 10000"));
  EXPECT_TRUE(has(refusal({{"throughput", many}}), "10001 batches of 'throughput'"));
  EXPECT_TRUE(has(refusal({{"arms", json::array({{{"name", "x"}, {"network", many}}})}}),
                  "10001 layers of an arm's network"));
  EXPECT_TRUE(has(refusal({{"layers", json::array({{{"totals", three}}})}}),
                  "3 totals of a batch, more than 2"));
  const json rows = json::array({{{"arms", three}}});
  EXPECT_TRUE(has(refusal({{"layers", json::array({{{"rows", rows}}})}}),
                  "3 arms in a row of 'layers', more than 2"));
  EXPECT_TRUE(has(refusal({{"throughput", rows}}), "3 arms in a row of 'throughput'"));
  EXPECT_TRUE(has(refusal({{"training", {{"arms", three}}}}), "3 arms in 'training'"));
}

TEST(Results, FailOnListsAStepOnce) {
  json results = results_with(ratio("slower", 0.9, 0.88, 0.92));
  const json step = {{"batch", 8}, {"step_ratios", {ratio("slower", 0.9, 0.88, 0.92)}}};
  results["layers"] = {step};
  results["training"] = step;
  EXPECT_EQ(failures(results, read_fail_on({"slower"})).size(), 1u);
}

TEST(Results, FailOnNeedsSomethingToCompare) {
  json results = results_with(ratio("same", 1, 0.99, 1.01));
  const auto lines = [&] { return failures(results, read_fail_on({"mismatch", "slower"})); };
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
  json results = mismatch_fixture();
  results["summary"] = summarise_results(results);
  EXPECT_EQ(results["summary"]["ok"], false);
  const json& first = results["summary"]["first_mismatch"];
  EXPECT_EQ(first["pass"], "forward");
  EXPECT_EQ(results_text(results).find("MISMATCH first in " + first["layer"].get<std::string>()),
            0u);
  EXPECT_EQ(failures(results, read_fail_on({"mismatch"})).size(), 1u);
  results.erase("summary");
  EXPECT_EQ(failures(results, read_fail_on({"mismatch"})).size(), 1u);

  json right = results_fixture();
  right["summary"] = summarise_results(right);
  EXPECT_EQ(right["summary"]["ok"], true) << right["summary"];
  EXPECT_TRUE(failures(right, read_fail_on({"mismatch"})).empty());
}

TEST(Results, TrainingsThatPartAreMismatches) {
  const auto mismatch_of = [](const json& training) {
    const json results = {{"arms", {{{"name", "x"}}, {{"name", "y"}}}}, {"training", training}};
    const json first = summarise_results(results)["first_mismatch"];
    return first.is_null()
               ? ""
               : first["arm"].get<std::string>() + ": " + first["text"].get<std::string>();
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
  const auto lines = failures({{"training", diverged}}, {.mismatch = true});
  ASSERT_EQ(lines.size(), 1u);  // nothing was compared
  EXPECT_TRUE(has(lines[0], "nothing to compare after training"));
  const json idle = {{{"layer", ""}, {"pass", ""}, {"text", "computes less"}}};
  EXPECT_EQ(mismatch_of({{"arms", {{{"arm", 0}, {"step_faults", idle}}}}}), "x: computes less");
}

TEST(Results, TablesCopeWithWhateverIsMissing) {
  for (const json& results :
       {json::object(), json(), json{{"arms", 3}}, json{{"layers", {{{"rows", {json(), 3}}}}}},
        json{{"training", {{"arms", {json::object()}}, {"differences", {json()}}}}},
        json{{"throughput", {json::object()}}}}) {
    EXPECT_FALSE(results_text(results).empty());
    EXPECT_EQ(summarise_results(results)["ok"], true);
  }
}

// Numbers that are no place, count or size are never converted to one.
TEST(Results, ImpossibleNumbersAreShownAsSuch) {
  for (const double number : {-1.0, 0.5, 1e300, -1e300, 1e19}) {
    SCOPED_TRACE(number);
    json results = results_fixture();
    for (json& batch : results["layers"]) {
      batch["batch"] = number;
      for (json& ratio : batch["step_ratios"]) ratio["a"] = ratio["b"] = number;
      for (json& total : batch["totals"]) total["arm"] = total["memory_bytes"] = number;
      for (json& row : batch["rows"]) row["ratios"] = {{{"a", number}, {"b", number}}};
    }
    for (json& arm : results["training"]["arms"]) {
      arm["arm"] = arm["peak_memory_bytes"] = arm["halted_at"] = arm["step_us"] = number;
    }
    for (json& pair : results["training"]["differences"]) pair["a"] = pair["b"] = number;
    for (json& row : results["throughput"]) row["training_ratios"] = {{{"b", number}}};
    results["seconds"] = number;
    results["summary"] = summarise_results(results);
    EXPECT_EQ(member(results["layers"][0], "totals").is_array(), true);
    EXPECT_EQ(arm_of(results, results["layers"][0]["totals"][0]), kNotMeasured);
    EXPECT_EQ(results_text(results).find("922337203685477"), std::string::npos);
    EXPECT_EQ(results_text(results).find("184467440737095"), std::string::npos);
    EXPECT_EQ(results_markdown(results).find("1844674407"), std::string::npos);
  }
}

TEST(Results, TablesFitAConsole) {
  json results = results_fixture();
  results["summary"] = summarise_results(results);
  const std::string text = results_text(results);
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 140u) << line;
  EXPECT_TRUE(has(text, "layers, batch 64", "the whole step, batch 1,024", "of limit",
                  "throughput in inference", "accuracy by seed"));
  // More than two arms: each against the first.
  EXPECT_TRUE(has(results_text(results_fixture(3)), "against "));
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

}  // namespace
}  // namespace duet
