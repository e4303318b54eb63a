#include "compare/report/run_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compare/report/report_page.h"
#include "compare/run_fixture.h"
#include "support/text.h"

namespace duet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

class RunReport : public testing::Test {
 protected:
  RunReport() { write_run_fixture(folder_, "run"); }

  RunRecord read() const { return read_run(folder_ / "run"); }
  std::string mistake() const {
    return error_of<DataError>([&] { read(); });
  }

  // What the page's script reads.
  json data() const {
    const std::string page = run_report_html(read());
    const std::string start = "id=\"results\">";
    const size_t from = page.find(start) + start.size();
    return json::parse(page.substr(from, page.find("</script>", from) - from));
  }

  const TemporaryFolder folder_;
};

TEST_F(RunReport, ReadsWhatTheRunLeft) {
  const RunRecord run = read();
  EXPECT_EQ(run.name, "made_up");
  EXPECT_EQ(run.seed, 18446744073709551615u);
  EXPECT_EQ(run.steps.size(), 8u);
  ASSERT_EQ(run.epochs.size(), 4u);
  EXPECT_EQ(run.epochs[3].val_loss, 1.25 / 4);
  EXPECT_EQ(run.network.at(0).passes.at(0).implementation, "cpu_blas");
  EXPECT_EQ(run.versions.at(0).second, "9.1.0");
  ASSERT_TRUE(run.evaluation);
  EXPECT_EQ(run.evaluation->confusion[2][0], 4);
  EXPECT_FALSE(run.cut_short);
}

TEST_F(RunReport, WhatIsNoRunIsTold) {
  const auto of = [&](const fs::path& path) {
    return error_of<DataError>([&] { read_run(path); });
  };
  EXPECT_TRUE(has(of(folder_ / "none"), "none: there is no such folder; name the folder of a run"));
  EXPECT_TRUE(has(of(folder_ / "run/metrics.jsonl"), "is a file; name the folder of a run, ",
                  (folder_ / "run").string()));
  folder_.write("profile/profile.json", "{}");
  EXPECT_TRUE(has(of(folder_ / "profile"), "there is no metrics.jsonl in it", "--profile"));
  fs::remove(folder_ / "run/run.json");
  EXPECT_TRUE(has(mistake(), "there is no run.json in it"));
}

TEST_F(RunReport, DamagedFilesAreTold) {
  const std::string metrics = folder_.read("run/metrics.jsonl");
  const auto with_line = [&](const std::string& line) {
    const size_t second = metrics.find('\n') + 1;
    folder_.write("run/metrics.jsonl",
                  metrics.substr(0, second) + line + "\n" + metrics.substr(second));
    return mistake();
  };
  EXPECT_TRUE(has(with_line("{\"event\":"), "metrics.jsonl:2: not JSON, or cut short",
                  "remove it (sed -i 2d "));
  EXPECT_TRUE(has(with_line("7"), "metrics.jsonl:2: not an object"));
  EXPECT_TRUE(has(with_line(""), "metrics.jsonl:2: not JSON"));
  EXPECT_TRUE(has(with_line("{\"event\":\"end\"}"), ":2: neither a step nor an epoch"));
  EXPECT_TRUE(has(with_line("{\"event\":\"epoch\",\"epoch\":1,\"val_loss\":\"low\"}"),
                  ":2: 'val_loss' is \"low\", not a number"));
  EXPECT_TRUE(has(with_line(std::string(100, '[')), "JSON nested more than"));
  folder_.write("run/metrics.jsonl", "");
  EXPECT_TRUE(has(mistake(), "nothing is logged yet", "try again"));
  folder_.write("run/metrics.jsonl", metrics);

  const std::string evaluation = folder_.read("run/evaluation.json");
  folder_.write("run/evaluation.json", changed(evaluation, {{"[[8,1,1],", "[[8,1],"}}));
  EXPECT_TRUE(has(mistake(), "evaluation.json: 'confusion'"));
  folder_.write("run/evaluation.json", "{");
  EXPECT_TRUE(has(mistake(), "evaluation.json: not JSON", "remove it"));
  fs::remove(folder_ / "run/evaluation.json");
  EXPECT_EQ(mistake(), "");
  folder_.write("run/run.json", "[]");
  EXPECT_TRUE(has(mistake(), "run.json: ", "not an object", "--resume last --out"));
}

// A run that still goes on, or was killed.
TEST_F(RunReport, ALineThatIsCutShortIsLeftOut) {
  folder_.write("run/metrics.jsonl", folder_.read("run/metrics.jsonl") + "{\"event\":\"st");
  const RunRecord run = read();
  EXPECT_TRUE(run.cut_short);
  EXPECT_EQ(run.epochs.size(), 4u);
}

TEST_F(RunReport, PageHoldsCurvesTablesAndMatrix) {
  if (!report_available()) GTEST_SKIP() << "needs a build with Chart.js (libjs-chart.js)";
  const json page = data();
  EXPECT_EQ(page["curves"]["epochs"].size(), 4u);
  EXPECT_EQ(page["curves"]["steps"][7]["loss"], 0.25);
  EXPECT_EQ(page["confusion"]["rows"][2], json({4, 0, 6}));
  EXPECT_EQ(page["confusion"]["epoch"], 4);
  EXPECT_EQ(page["config"], "name: made_up\nseed: 1\n");
  const json& tables = page["tables"];
  EXPECT_EQ(tables["figures"][0]["value"], "85.00%");
  EXPECT_EQ(tables["classes"]["rows"][0][3]["text"], "66.67%");
  // The largest first.
  EXPECT_EQ(tables["confusions"]["rows"][0][1]["text"], "Coat");
  EXPECT_EQ(tables["confusions"]["rows"][0][2]["text"], "4");
  EXPECT_EQ(tables["network"]["rows"][0][5]["text"], "cpu_blas");
  const std::string machine = tables["machine"].dump();
  EXPECT_TRUE(has(machine, "18446744073709551615", "cuDNN", "at step 8: seed", "/data/fashion"));
  const std::string html = run_report_html(read());
  EXPECT_EQ(html.find("</script><b>"), std::string::npos) << "names are text";
  EXPECT_TRUE(has(html, "<p class=\"kind\">Duet training</p>", "<title>made_up</title>"));
}

TEST_F(RunReport, TellsOfTheGoal) {
  if (!report_available()) GTEST_SKIP() << "needs a build with Chart.js (libjs-chart.js)";
  json run = json::parse(folder_.read("run/run.json"));
  const auto figure = [&](const json& goal) {
    run["goal"] = goal;
    run["init_from"] = {{"file", "resnet18.safetensors"}, {"skipped", {"fc.weight"}}};
    folder_.write("run/run.json", run.dump());
    return data()["tables"]["figures"][2];
  };
  const json reached = figure({{"val_accuracy", 0.7}, {"epoch", 2}, {"seconds", 26}});
  EXPECT_EQ(reached["label"], "to the goal of 70.00%");
  EXPECT_EQ(reached["value"], "26.0 s");
  EXPECT_EQ(reached["note"], "after epoch 2, evaluations included");
  EXPECT_EQ(figure({{"val_accuracy", 0.9}, {"epoch", nullptr}, {"seconds", nullptr}})["value"],
            "not reached");
  EXPECT_TRUE(has(data()["tables"]["machine"].dump(), "began with", "resnet18.safetensors"));
}

TEST_F(RunReport, TellsWhatWasLeftOut) {
  if (!report_available()) GTEST_SKIP() << "needs a build with Chart.js (libjs-chart.js)";
  EXPECT_FALSE(has(data()["tables"].dump(), "left out"));
  json run = json::parse(folder_.read("run/run.json"));
  run["dataset"]["left_out"] = {{"count", 1234}, {"named", {"a.png: is no picture", "b.png: no"}}};
  folder_.write("run/run.json", run.dump());
  const json tables = data()["tables"];
  const json& figure = tables["figures"][tables["figures"].size() - 2];
  EXPECT_EQ(figure["label"], "samples left out");
  EXPECT_EQ(figure["value"], "1,234");
  EXPECT_TRUE(has(tables["machine"].dump(), "a.png: is no picture", "b.png: no"));
}

TEST_F(RunReport, LongCurvesAreThinned) {
  if (!report_available()) GTEST_SKIP() << "needs a build with Chart.js (libjs-chart.js)";
  std::string metrics;
  for (int step = 1; step <= 9000; ++step) {
    metrics +=
        "{\"event\":\"step\",\"epoch\":1,\"step\":" + std::to_string(step) + ",\"loss\":1}\n";
  }
  folder_.write("run/metrics.jsonl", metrics);
  const json steps = data()["curves"]["steps"];
  EXPECT_EQ(steps.size(), 1800u);  // every fifth
  EXPECT_EQ(steps.back()["step"], 9000);
}

}  // namespace
}  // namespace duet
