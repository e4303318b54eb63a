#include "lab/suites.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "compare/results/results_json.h"
#include "core/error.h"
#include "core/input_file.h"
#include "lab/bench_problems.h"
#include "lab/suite_summary.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

struct Totals {
  int64_t weights = 0, biases = 0;
  double multiplications = 0;  // for one image
};

// Of all layers that the suite names.
Totals totals_of(const std::string& name) {
  Totals totals;
  for (const SuiteProblem& each : make_suite(name).problems) {
    const ProblemSource source{.layer = each.layer, .shape = each.shape, .batch = "1"};
    const auto problems = read_problems(source, Device::kCpu);
    const Layer& layer = *problems.at(0).layer;
    const auto times = 1 + std::count(each.name.begin(), each.name.end(), ',');
    totals.weights += times * layer.parameters().at(0).desc.elements();
    totals.biases += times * layer.parameters().at(1).desc.elements();
    totals.multiplications += static_cast<double>(times) * layer.flops(Pass::kForward) / 2;
  }
  return totals;
}

// Parameters as torchvision counts them, less those of batch normalisation and of convolutions that
// have no bias there; multiplications as the papers state them.
TEST(Suites, AreTheNetworksThatWerePublished) {
  const Totals vgg = totals_of("vgg16");
  EXPECT_EQ(vgg.weights + vgg.biases, 138357544);
  EXPECT_NEAR(vgg.multiplications, 15.5e9, 0.1e9);
  const Totals mobilenet = totals_of("mobilenet_v2");
  EXPECT_EQ(mobilenet.weights, 3504872 - 34112 - 1000);
  EXPECT_NEAR(mobilenet.multiplications, 300e6, 10e6);
  EXPECT_NEAR(totals_of("efficientnet_b0").multiplications, 0.39e9, 0.02e9);
  EXPECT_NEAR(totals_of("googlenet").multiplications, 1.58e9, 0.1e9);
}

TEST(Suites, EveryProblemIsSoundAndStandsOnce) {
  for (const std::string& name : suite_names()) {
    const Suite suite = make_suite(name);
    EXPECT_NE(suite.source, "") << name;
    std::vector<std::string> shapes;
    for (const SuiteProblem& each : suite.problems) shapes.push_back(each.layer + each.shape);
    std::sort(shapes.begin(), shapes.end());
    EXPECT_EQ(std::adjacent_find(shapes.begin(), shapes.end()), shapes.end()) << name;
    const auto problems = read_problems({.suites = {name}}, Device::kCpu);
    EXPECT_GE(problems.size(), suite.problems.size());
    for (const BenchProblem& problem : problems) EXPECT_EQ(problem.suite, name);
  }
  EXPECT_THROW(make_suite("vgg"), ConfigError);
}

// The same ones whichever of its batches is measured.
TEST(Suites, HoldOutEveryThirdProblem) {
  const auto problems = read_problems({.suites = {"vgg16"}, .batch = "1,8"}, Device::kCpu);
  for (size_t i = 0; i < problems.size(); ++i) {
    EXPECT_EQ(problems[i].held_out, i / 2 % 3 == 2) << problems[i].name;
  }
}

// The last layer of the U-Net has the size that its figure shows.
TEST(Suites, TheUNetEndsAsInItsFigure) {
  const Suite suite = make_suite("unet");
  EXPECT_EQ(suite.problems.back().shape, "n=1,8,c=64,h=388,w=388,k=2,r=1,s=1");
}

// A row of custom and cudnn on a device, with the times of both.
nlohmann::json row(const std::string& suite, const std::string& shape, double custom,
                   double cudnn) {
  const auto arm = [](const char* id, double us) {
    return nlohmann::json{{"implementation", id}, {"agrees", true}, {"us", {{"median", us}}}};
  };
  return {{"suite", suite},
          {"layer", "conv1"},
          {"type", "conv2d"},
          {"pass", "forward"},
          {"problem", shape},
          {"repeat", "bench conv2d --shape " + shape + " --pass forward"},
          {"baseline", 2},
          {"arms",
           {arm("custom_direct", custom), arm("custom_naive", 9 * custom), arm("cudnn", cudnn),
            arm("cudnn_im2col_cublas", 2 * cudnn)}},
          {"ratios", nlohmann::json::array()}};
}

std::string results_file(const std::vector<nlohmann::json>& rows, const std::string& gpu = "H200") {
  return nlohmann::json{{"schema", kBenchSchema},
                        {"device", "gpu"},
                        {"date", "2026-11-23"},
                        {"command", "bench --suite a"},
                        {"environment", {{"gpu", gpu}, {"duet", "0.1.0"}}},
                        {"rows", rows}}
      .dump();
}

TEST(SuiteSummary, IsTheGeometricMeanWithTheWorstRow) {
  const TemporaryFolder folder;
  folder.write("a.json", results_file({row("a", "n=1,c=3,h=8,w=8,k=4,r=3,s=3", 100, 400),
                                       row("a", "n=8,c=3,h=8,w=8,k=4,r=3,s=3", 100, 1)}));
  // Measured again, and another suite: 0.25 is the worst row then, and 2 the mean of both.
  folder.write("b.json", results_file({row("a", "n=8,c=3,h=8,w=8,k=4,r=3,s=3", 100, 25),
                                       row("b", "n=1,c=5,h=8,w=8,k=4,r=3,s=3", 100, 800)}));
  const SuiteResults all =
      read_suite_results({(folder / "a.json").string(), (folder / "b.json").string()});
  const std::string text = suite_summary_text(all);
  const auto line = [&](const std::string& suite) {
    const size_t at = text.find("\n" + suite + " ");
    return at == std::string::npos ? "none: " + text
                                   : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  EXPECT_TRUE(has(line("a"), {"conv2d forward", "fp32", "custom / cudnn", " 2 ", "1.00x", "0.250x",
                              "conv1: n=8,c=3"}));
  EXPECT_TRUE(has(line("b"), {" 1 ", "8.00x"}));
  EXPECT_TRUE(has(line("all"), {" 3 ", "2.00x", "0.250x"}));
  const std::string page = suite_summary_markdown(all);
  EXPECT_TRUE(has(page, {"# Suites", "H200", "`bench --suite a`", "## The slowest rows"}));
  // The rows of a page are read again as they were written.
  folder.write("page.json", JsonWriter::write(all).dump());
  EXPECT_EQ(suite_summary_markdown(read_suite_results({(folder / "page.json").string()})), page);
}

TEST(SuiteSummary, SaysWhereASuiteWasCutShort) {
  const TemporaryFolder folder;
  folder.write("a.json", results_file({row("vgg16", "n=1,c=3,h=8,w=8,k=4,r=3,s=3", 100, 400),
                                       row("vgg16", "n=8,c=3,h=8,w=8,k=4,r=3,s=3", 100, 400)}));
  const std::string page =
      suite_summary_markdown(read_suite_results({(folder / "a.json").string()}));
  const size_t all = make_suite("vgg16").problems.size();
  EXPECT_TRUE(has(page, {"; of vgg16 1 of " + std::to_string(all) + " problems\n"}));
}

TEST(SuiteSummary, TheMeanOfWhatIsHeldOutStandsApart) {
  const TemporaryFolder folder;
  nlohmann::json held_out = row("a", "n=8,c=3,h=8,w=8,k=4,r=3,s=3", 100, 200);
  held_out["held_out"] = true;
  folder.write("a.json",
               results_file({row("a", "n=1,c=3,h=8,w=8,k=4,r=3,s=3", 100, 800), held_out}));
  const std::string text = suite_summary_text(read_suite_results({(folder / "a.json").string()}));
  EXPECT_TRUE(has(text, {"held out", "4.00x", "2.00x"}));
}

// docs/results/suites.md is what its rows make; "bench --from docs/results/suites.json --write" brings it
// up to date.
TEST(SuiteSummary, ThePageIsOfItsRows) {
  const std::filesystem::path page = DUET_SOURCE_DIR "/docs/results/suites.md";
  if (!std::filesystem::exists(page)) GTEST_SKIP() << "no measured suites in docs/results";
  const std::string rows = DUET_SOURCE_DIR "/docs/results/suites.json";
  EXPECT_EQ(read_input_file(page, 1 << 20), suite_summary_markdown(read_suite_results({rows})));
}

TEST(SuiteSummary, OtherDevicesAndOtherFilesAreRefused) {
  const TemporaryFolder folder;
  folder.write("a.json", results_file({row("a", "n=1,c=3,h=8,w=8,k=4,r=3,s=3", 1, 2)}));
  folder.write("b.json", results_file({}, "H100"));
  folder.write("c.json", "{\"schema\":\"duet.results/1\"}");
  const auto read = [&](const std::string& name) {
    return read_suite_results({(folder / "a.json").string(), (folder / name).string()});
  };
  EXPECT_THROW(read("b.json"), DataError);
  EXPECT_THROW(read("c.json"), DataError);
  EXPECT_THROW(read("none.json"), DataError);
}

}  // namespace
}  // namespace duet
