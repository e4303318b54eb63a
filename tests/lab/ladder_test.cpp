#include "lab/ladder.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "compare/results/results_json.h"
#include "core/error.h"
#include "core/input_file.h"
#include "lab/bench_problems.h"
#include "layers/layers.h"
#include "support/temporary_folder.h"
#include "support/text.h"
#include "test_paths.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kBefore = "# linear\r\n\ntext \t\n<!-- bench:linear -->\n";
constexpr const char* kAfter = "<!-- /bench -->\nmore, without an end of line";

/// A source tree with one layer.
class LadderTree : public ::testing::Test {
 protected:
  LadderTree() {
    write("bench.yaml", "problems: []\n");
    write("README.md", kBefore + std::string("Not measured yet.\n") + kAfter);
  }

  fs::path folder() const { return root_ / "framework/layers/linear"; }
  void write(const std::string& name, const std::string& text) const {
    root_.write("framework/layers/linear/" + name, text);
  }
  std::string page() const { return root_.read("framework/layers/linear/README.md"); }

  const TemporaryFolder root_;
};

BenchResults results(const std::string& device) {
  json results = json::parse(R"json({
    "command": "bench --ladder linear --write", "date": "2026-11-21T12:00:00Z",
    "environment": {"duet": "0.1.0 (abc)", "gpu": "NVIDIA H200", "driver": "570.1", "cpu": "EPYC",
                    "versions": [["NVIDIA driver", "supports CUDA 13.0"],
                                 ["CUDA runtime", "13.0 loaded, compiled against 13.0, from /x"],
                                 ["cuDNN", "9.14.0"]]},
    "rows": [
      {"layer": "fc1", "type": "linear", "pass": "forward", "problem": "n=64 in=5 out=3",
       "repeat": "bench linear --shape n=64,in=5,out=3 --pass forward", "floor_us": 1.5,
       "baseline": 1,
       "arms": [{"implementation": "custom_tiled", "agrees": true, "us": {"median": 4.0}},
                {"implementation": "cudnn_cublas", "agrees": true, "us": {"median": 5.0}},
                {"implementation": "custom_bad", "agrees": false, "us": null,
                 "faults": [{"kind": "zeros", "text": "returns zeros"}]}],
       "ratios": [{"a": 0, "b": 1, "speedup": 1.25}]},
      {"layer": "fc1", "type": "linear", "pass": "backward_data", "problem": "n=64 in=5 out=3",
       "repeat": "bench linear --shape n=64,in=5,out=3 --pass backward_data", "floor_us": 1.6,
       "baseline": 0,
       "arms": [{"implementation": "cudnn_cublas", "agrees": true, "us": {"median": 6.0}}],
       "ratios": []}]})json");
  results["device"] = device;
  return JsonReader::read<BenchResults>(results);
}

TEST(Ladder, EveryListOfShapesIsSoundAndHasItsPlace) {
  size_t count = 0;
  const fs::path root = DUET_SOURCE_DIR;
  for (const auto& folder : fs::directory_iterator(root / "framework/layers")) {
    const fs::path shapes = folder.path() / "bench.yaml";
    if (!fs::exists(shapes)) continue;
    const auto problems = read_problems({.shapes = shapes.string()}, Device::kCpu);
    EXPECT_GE(problems.size(), 3u) << shapes;
    const std::string type(problems.at(0).layer->type());
    const Ladder ladder = find_ladder(type, root);
    EXPECT_EQ(ladder.shapes, shapes);
    check_ladder(ladder, Device::kGpu, false);
    check_bounds(ladder);
    for (const BenchProblem& problem : problems) {
      EXPECT_EQ(problem.layer->type(), type);
      EXPECT_NE(problem.name, "") << type;
    }
    ++count;
  }
  EXPECT_GE(count, 12u);
}

TEST_F(LadderTree, BoundsHaveAPlaceOfTheirOwn) {
  const std::string marks = "<!-- ncu:linear -->\nold\n<!-- /ncu -->\nend\n";
  write("README.md", kBefore + std::string("a table\n<!-- /bench -->\n") + marks);
  const Ladder ladder = find_ladder("linear", root_.path());
  check_bounds(ladder);
  write_bounds(ladder, bounds_markdown({{"n=64,in=5,out=3", "forward", "custom_naive", "L2, 81%"},
                                        {"n=64,in=5,out=3", "forward", "cudnn_cublas", ""}},
                                       results("gpu").environment, "bench --ladder linear --ncu",
                                       "2026-11-25T12:00:00Z"));
  EXPECT_TRUE(has(page(), "a table\n",
                  "| `n=64,in=5,out=3` | forward | `custom_naive` | L2, 81% |\n",
                  "| `cudnn_cublas` | - |", "NVIDIA H200",
                  "2026-11-25: `bench --ladder linear --ncu`", "<!-- /ncu -->\nend\n"));
  EXPECT_EQ(page().find("old"), std::string::npos);
  write("README.md", kBefore + std::string("a table\n") + kAfter);
  EXPECT_TRUE(has(error_of<ConfigError>([&] { check_bounds(ladder); }), "<!-- ncu:linear -->"));
}

TEST_F(LadderTree, BoundsOfAnotherPassStayWithTheirMachine) {
  write("README.md", kBefore + std::string("<!-- /bench -->\n<!-- ncu:linear -->\n"
                                           "Not measured yet.\n<!-- /ncu -->\nend\n"));
  const Ladder ladder = find_ladder("linear", root_.path());
  const auto write_rows = [&](const std::vector<LadderBound>& rows, const std::string& command) {
    write_bounds(
        ladder, bounds_markdown(rows, results("gpu").environment, command, "2026-11-25T12:00:00Z"));
  };
  const std::string problem = "n=64,in=5,out=3";
  write_rows({{problem, "forward", "custom_naive", "L2, 81%"},
              {problem, "forward", "custom_tiled", "L2, 82%"}},
             "first");
  write_rows({{problem, "backward_data", "custom_naive", "DRAM, 83%"}}, "second");
  EXPECT_TRUE(has(page(), "`custom_naive` | L2, 81%", "`first`\n\n| problem |", "DRAM, 83%",
                  "`second`\n<!-- /ncu -->\nend\n"));
  EXPECT_EQ(page().find("Not measured yet."), std::string::npos);
  // A row that is counted again moves; its first count goes, and with the last row its table.
  write_rows({{problem, "forward", "custom_naive", "L2, 84%"},
              {problem, "backward_data", "custom_naive", "DRAM, 85%"}},
             "third");
  EXPECT_TRUE(has(page(), "`custom_tiled` | L2, 82%", "`first`\n\n| problem |", "L2, 84%",
                  "DRAM, 85%", "`third`\n<!-- /ncu -->\nend\n"));
  for (const char* gone : {"L2, 81%", "DRAM, 83%", "`second`"}) {
    EXPECT_EQ(page().find(gone), std::string::npos) << gone;
  }
}

/// What has a row in a page's tables: "| `custom_naive` | ...".
std::set<std::string> rows_in(const std::string& tables) {
  std::set<std::string> ids;
  std::istringstream lines(tables);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) ids.insert(line.substr(3, line.find('`', 3) - 3));
  }
  return ids;
}

/// What a page names in the line "Not measured yet: `custom_naive`, `custom_tiled`." of its tables, which
/// the next that is written does not have.
std::set<std::string> not_measured_in(const std::string& tables) {
  std::set<std::string> ids;
  const std::string begin = "\nNot measured yet: ";
  const size_t line = tables.find(begin);
  if (line == std::string::npos) return ids;
  const size_t end = tables.find('\n', line + 1);
  for (size_t at = line; (at = tables.find('`', at)) < end;) {
    const size_t close = tables.find('`', at + 1);
    ids.insert(tables.substr(at + 1, close - at - 1));
    at = close + 1;
  }
  return ids;
}

TEST(Ladder, MeasuredTablesHaveARowForEachImplementationOnAGpuAndNoOther) {
  if (!DUET_WITH_CUDA) GTEST_SKIP() << "needs a build with CUDA";
  size_t measured = 0;
  for (const auto& folder :
       fs::directory_iterator(fs::path(DUET_SOURCE_DIR) / "framework/layers")) {
    const fs::path page = folder.path() / "README.md";
    const std::string text = fs::exists(page) ? read_input_file(page, 1 << 20) : "",
                      mark = "<!-- bench:";
    const size_t name = text.find(mark), begin = text.find("<!-- measured on the gpu -->");
    if (begin == std::string::npos) continue;
    const size_t first = name + mark.size();
    const LayerType* type = find_layer_type(text.substr(first, text.find(' ', first) - first));
    ASSERT_TRUE(type) << page;
    std::set<std::string> expected;
    for (const ImplInfo& info : type->implementations()) {
      if (family_of(info.id) != Family::kCpu) expected.emplace(info.id);
    }
    const std::string tables = text.substr(begin, text.find("<!-- /bench -->", begin) - begin);
    std::set<std::string> told = rows_in(tables);
    for (const std::string& id : not_measured_in(tables)) {
      EXPECT_TRUE(told.insert(id).second) << page << ": " << id << " has a row";
    }
    EXPECT_EQ(told, expected) << page;
    ++measured;
  }
  EXPECT_GE(measured, 9u);
}

/// The ids of the rungs of a page of the course, by layer and whether of backward: "<!-- rung: linear custom_naive -->",
/// "<!-- rung: linear custom_naive backward fc1 of mlp_mnist -->".
std::map<std::pair<std::string, bool>, std::set<std::string>> rungs_in(const fs::path& page) {
  std::map<std::pair<std::string, bool>, std::set<std::string>> rungs;
  std::ifstream in(page);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string begin, mark, layer, id, pass;
    if (words >> begin >> mark >> layer >> id >> pass && begin == "<!--" && mark == "rung:") {
      rungs[{layer, pass == "backward"}].insert(id);
    }
  }
  return rungs;
}

TEST(Course, PagesHaveRungsOfForwardAndBackwardForEachImplementationOnAGpuAndNoOther) {
  if (!DUET_WITH_CUDA) GTEST_SKIP() << "needs a build with CUDA";
  size_t pages = 0;
  for (const auto& page : fs::directory_iterator(fs::path(DUET_SOURCE_DIR) / "docs/course")) {
    for (const auto& [key, ids] : rungs_in(page.path())) {
      const auto& [layer, backward] = key;
      const LayerType* type = find_layer_type(layer);
      ASSERT_TRUE(type) << page << ": " << layer;
      std::set<std::string> expected;
      for (const ImplInfo& info : type->implementations()) {
        if (family_of(info.id) != Family::kCpu) expected.emplace(info.id);
      }
      EXPECT_EQ(ids, expected) << page << ": " << layer << (backward ? " backward" : "");
      ++pages;
    }
  }
  EXPECT_GE(pages, 12u);
}

TEST_F(LadderTree, IsFoundFromBelow) {
  fs::create_directories(root_ / "build/deep");
  EXPECT_EQ(find_ladder("linear", root_ / "build/deep").page, folder() / "README.md");
  EXPECT_THROW(find_ladder("liner", root_.path()), ConfigError);
  EXPECT_THROW(find_ladder("conv2d", root_.path()), ConfigError);
  fs::remove(folder() / "bench.yaml");
  EXPECT_THROW(find_ladder("linear", root_.path()), ConfigError);
}

TEST_F(LadderTree, IsFoundInTheFolderOfItsFamily) {
  root_.write("framework/layers/batch_norm/README.md",
              "<!-- bench:batch_norm2d -->\n<!-- /bench -->\n");
  root_.write("framework/layers/batch_norm/bench.yaml", "problems: []\n");
  EXPECT_EQ(find_ladder("batch_norm2d", root_.path()).page,
            root_.path() / "framework/layers/batch_norm/README.md");
  EXPECT_THROW(find_ladder("batch_norm1d", root_.path()), ConfigError);
}

TEST_F(LadderTree, ReplacesTheTableAndNothingElse) {
  const Ladder ladder = find_ladder("linear", root_.path());
  check_ladder(ladder, Device::kGpu, false);
  for (int i = 0; i < 2; ++i) {
    write_ladder(ladder, results("gpu"));
    EXPECT_EQ(page(), kBefore + ladder_markdown(results("gpu")) + kAfter);
  }
}

TEST(Ladder, IsWrittenWhereOnlyTheLibraryIsWrong) {
  BenchResults measured = results("gpu");
  EXPECT_FALSE(can_be_written(measured));
  measured.rows[0].arms[2]->agrees = true;
  EXPECT_TRUE(can_be_written(measured));
  measured.rows[0].arms[1]->agrees = false;  // cudnn_cublas
  EXPECT_TRUE(can_be_written(measured));
  measured.rows[0].arms[0]->agrees = false;
  EXPECT_FALSE(can_be_written(measured));
}

TEST_F(LadderTree, TellsTimesRatiosAndTheMachine) {
  EXPECT_EQ(ladder_markdown(results("gpu")),
            "<!-- measured on the gpu -->\n"
            "fc1: `n=64,in=5,out=3`\n"
            "\n"
            "| | forward, % of `cudnn_cublas` | backward_data, % of `cudnn_cublas` |\n"
            "|---|---:|---:|\n"
            "| `custom_tiled` | **4.00** (125%) | - |\n"
            "| `cudnn_cublas` | 5.00 (100%) | **6.00** (100%) |\n"
            "| `custom_bad` | wrong: zeros | - |\n"
            "| floor | 1.50 | 1.60 |\n"
            "\n"
            "Microseconds a call, the median with warm caches; in brackets the speed beside the "
            "baseline's; `-` where an implementation cannot do it; the floor is what products or "
            "memory traffic take at this machine's measured ceilings.\n"
            "NVIDIA H200, driver 570.1, CUDA runtime 13.0, cuDNN 9.14.0, Duet 0.1.0 (abc), "
            "2026-11-21: `bench --ladder linear --write`\n");
}

TEST_F(LadderTree, KeepsAGpusNumbersFromACpus) {
  const Ladder ladder = find_ladder("linear", root_.path());
  check_ladder(ladder, Device::kCpu, false);
  write_ladder(ladder, results("cpu"));
  check_ladder(ladder, Device::kCpu, false);
  EXPECT_TRUE(has(page(), "EPYC, Duet"));
  write_ladder(ladder, results("gpu"));
  EXPECT_THROW(check_ladder(ladder, Device::kCpu, false), ConfigError);
  check_ladder(ladder, Device::kCpu, true);
  check_ladder(ladder, Device::kGpu, false);
}

TEST_F(LadderTree, NeedsItsLines) {
  const Ladder ladder = find_ladder("linear", root_.path());
  for (const char* wrong :
       {"", "no lines\n", "<!-- bench:linear -->\n", "<!-- bench:conv2d -->\n<!-- /bench -->\n",
        "<!-- /bench -->\n<!-- bench:linear -->\n", "<!-- bench:linear -->\ntext <!-- /bench -->\n",
        "<!-- bench:linear -->\n<!-- bench:relu -->\n<!-- /bench -->\n",
        "<!-- bench:linear -->\n<!-- bench:linear -->\n<!-- /bench -->\n"}) {
    write("README.md", wrong);
    EXPECT_THROW(check_ladder(ladder, Device::kGpu, true), ConfigError) << wrong;
    EXPECT_THROW(write_ladder(ladder, results("gpu")), ConfigError) << wrong;
    EXPECT_EQ(page(), wrong);
  }
}

}  // namespace
}  // namespace duet
