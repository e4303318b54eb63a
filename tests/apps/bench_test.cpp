// The bench application as a process: what it prints and writes, and its exit codes.
#include <gtest/gtest.h>

#include <csignal>

#include "core/error.h"
#include "device/device.h"
#include "support/trainer_process.h"
#include "test_paths.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct BenchFolder : TrainerFolder {
  BenchFolder() : TrainerFolder(DUET_BENCH) {}
};

constexpr const char* kTinyLinear = "linear --shape n=4,in=5,out=3 --device cpu --quick ";

// The rest of the first line of `text` that starts with `start`.
std::string line_after(const std::string& text, const std::string& start) {
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with(start)) return line.substr(start.size());
  }
  return "";
}

TEST(BenchProcess, PrintsATableThatCanBeRepeated) {
  const BenchFolder folder;
  const Outcome outcome = folder.run(
      "conv2d --shape n=2,c=3,h=6,w=5,k=4,r=3,s=3 --pass forward --device cpu --quick --out "
      "r.json");
  EXPECT_OUTCOME(outcome, kExitDone,
                 "conv2d n=2,c=3,h=6,w=5,k=4,r=3,s=3 forward: 2 implementations");
  EXPECT_TRUE(has(outcome.out, "conv2d forward", "p=4 q=3", "floor ", "% of cpu_", "cpu_blas ",
                  "cpu_reference ", "ok ", "GFLOP/s"));
  const std::string again = line_after(outcome.out, "again: " DUET_BENCH " ");
  EXPECT_EQ(again,
            "conv2d --shape n=2,c=3,h=6,w=5,k=4,r=3,s=3 --pass forward --device cpu --quick");
  EXPECT_OUTCOME(folder.run(again), kExitDone);
  const json results = json::parse(folder.read("r.json"));
  EXPECT_EQ(results["schema"], "duet.bench/1");
  EXPECT_EQ(results["device"], "cpu");
  EXPECT_GT(results["environment"]["ceilings"]["fp32_gflop_per_s"], 0.0);
  const json& row = results["rows"][0];
  ASSERT_EQ(row["arms"].size(), 2u);
  EXPECT_LE(row["arms"][0]["us"]["median"], row["arms"][1]["us"]["median"]);
  EXPECT_EQ(row["ratios"].size(), 1u);
  EXPECT_EQ(row["arms"][0]["agrees"], true);
}

TEST(BenchProcess, ChecksWithoutTimes) {
  const BenchFolder folder;
  const Outcome outcome = folder.run(std::string(kTinyLinear) + "--check-only --out r.json");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_TRUE(has(outcome.out, "cpu_blas ", "cpu_reference ", "ok ", "--check-only"));
  EXPECT_FALSE(has(outcome.err, "can do at most"));
  const json results = json::parse(folder.read("r.json"));
  EXPECT_FALSE(results["environment"].contains("ceilings") &&
               !results["environment"]["ceilings"].is_null());
  ASSERT_EQ(results["rows"].size(), 3u);
  for (const json& row : results["rows"]) {
    EXPECT_TRUE(row["floor_us"].is_null());
    for (const json& arm : row["arms"]) {
      EXPECT_EQ(arm["agrees"], true) << arm;
      EXPECT_TRUE(arm["us"].is_null());
      EXPECT_FALSE(arm["tensors"].empty());
    }
  }
  EXPECT_OUTCOME(folder.run(std::string(kTinyLinear) + "--check-only --once"), kExitUsage,
                 "--check-only goes without");
}

TEST(BenchProcess, WritesItsCommandForAShell) {
  const BenchFolder folder;
  const std::string start = "relu --shape n=2,c=3 --pass forward --impl cpu_reference --quick ";
  EXPECT_OUTCOME(folder.run(start + "--out it's;r.json"), kExitDone, "forward: 1 implementation\n");
  EXPECT_EQ(json::parse(folder.read("it's;r.json"))["command"],
            "bench " + start + "--out 'it'\\''s;r.json'");
}

TEST(BenchProcess, MeasuresEveryValueOfAnAxis) {
  const BenchFolder folder;
  const Outcome outcome = folder.run(
      "relu --shape n=1..4x2,c=2..3 --batch 1,5 --impl cpu_reference --pass backward --quick "
      "--json "
      "--quiet");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_EQ(outcome.err, "");
  std::vector<std::string> problems;
  const json results = json::parse(outcome.out);
  for (const json& row : results["rows"]) problems.push_back(row["problem"]);
  EXPECT_EQ(problems, (std::vector<std::string>{"x=1x2 float32", "x=1x3 float32", "x=5x2 float32",
                                                "x=5x3 float32"}));
}

TEST(BenchProcess, InterruptedLeavesWhatIsMeasured) {
  const BenchFolder folder;
  const Outcome outcome =
      folder.run_until("relu --shape n=1..1024x2,c=64 --device cpu --quick --out r.json", "stderr",
                       SIGINT, "x=4x64");
  EXPECT_OUTCOME(outcome, kExitInterrupted, "interrupted", "r.json");
  const json results = json::parse(folder.read("r.json"));
  EXPECT_EQ(results["stopped"], "interrupted");
  EXPECT_GE(results["rows"].size(), 2u);
  EXPECT_LT(results["rows"].size(), 22u);
  EXPECT_TRUE(has(outcome.out, "relu forward"));
}

TEST(BenchProcess, KilledLeavesTheRowsThatAreFinished) {
  const BenchFolder folder;
  const std::string arguments = "relu --shape n=1..1024x2,c=64 --device cpu --quick --out ";
  EXPECT_EQ(folder.run_until(arguments + "r.json", "stderr", SIGKILL, "x=4x64").code,
            128 + SIGKILL);
  const json results = json::parse(folder.read("r.json"));
  EXPECT_GE(results["rows"].size(), 1u);
  EXPECT_TRUE(has(results["stopped"].get<std::string>(), "while relu x="));
}

TEST(BenchProcess, InterruptedInTheReferenceStopsSoon) {
  const BenchFolder folder;
  folder.write("two.yaml",
               "problems:\n"
               "  - {layer: relu, shape: \"n=2,c=3\"}\n"
               "  - {layer: conv2d, shape: \"n=32,c=64,h=64,w=64,k=64,r=9,s=9\"}\n");
  const Outcome outcome =
      folder.run_until("--shapes two.yaml --pass forward --device cpu --quick --json --out r.json",
                       "stderr", SIGINT, "GFLOP in double");
  EXPECT_OUTCOME(outcome, kExitInterrupted, "interrupted", "r.json");
  EXPECT_EQ(outcome.err.find("done in"), std::string::npos) << outcome.err;
  EXPECT_EQ(json::parse(folder.read("r.json"))["rows"].size(), 1u);
  EXPECT_EQ(json::parse(outcome.out)["stopped"], "interrupted");  // printed too
}

TEST(BenchProcess, TakesTheLayersOfANetwork) {
  const BenchFolder folder;
  const Outcome outcome =
      folder.run("--config tiny.yaml --device cpu --impl cpu_reference --quick --json --batch 2");
  EXPECT_OUTCOME(outcome, kExitDone);
  std::vector<std::string> rows;
  const json results = json::parse(outcome.out);
  for (const json& row : results["rows"]) {
    rows.push_back(row["layer"].get<std::string>() + " " + row["pass"].get<std::string>());
    EXPECT_EQ(row["arms"].size(), 1u);
    EXPECT_TRUE(has(row["problem"].get<std::string>(), "2"));
  }
  ASSERT_GE(rows.size(), 4u);
  const std::string first = rows[0].substr(0, rows[0].find(' '));
  EXPECT_EQ(rows[0], first + " forward");
  EXPECT_EQ(rows[1], first + " backward_filter");
  EXPECT_NE(rows[2], first + " backward_data");  // nobody needs the gradient of the images
  EXPECT_EQ(rows.back(), "loss backward");
}

TEST(BenchProcess, TakesAFileOfShapes) {
  const BenchFolder folder;
  folder.write("shapes.yaml",
               "problems:\n"
               "  - {layer: relu, name: a, shape: \"n=2,c=3\"}\n"
               "  - {layer: softmax_cross_entropy, shape: \"n=2,c=3\"}\n");
  const Outcome outcome =
      folder.run("--shapes shapes.yaml --pass forward --device cpu --quick --impl cpu_reference");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_TRUE(has(outcome.out, "a: relu forward", "softmax_cross_entropy forward"));
  folder.write("wrong.yaml",
               "problems:\n"
               "  - {layer: rellu, shape: \"n=2,c=3\"}\n"
               "  - {layer: relu, shape: \"n=2\", shap: 1}\n"
               "  - {layer: relu, shape: \"n=2\"}\n");
  EXPECT_OUTCOME(folder.run("--shapes wrong.yaml"), kExitUsage, "wrong.yaml:2:5",
                 "did you mean 'relu'", "unknown key 'shap'", "wrong.yaml:4:5",
                 "input is incomplete");
  folder.write("empty.yaml", "problem: 1\n");
  EXPECT_OUTCOME(folder.run("--shapes empty.yaml"), kExitUsage, "a list 'problems'");
  folder.write("nothing.yaml", "");
  const Outcome nothing = folder.run("--shapes nothing.yaml");
  EXPECT_OUTCOME(nothing, kExitUsage, "nothing.yaml: is empty");
  EXPECT_EQ(nothing.err.find("layers"), std::string::npos) << nothing.err;
  EXPECT_OUTCOME(folder.run("--shapes none.yaml"), kExitUsage, "none.yaml", "check --shapes");
}

TEST(BenchProcess, HasNoFloorWithoutARate) {
  const BenchFolder folder;
  const Outcome outcome = folder.run(std::string(kTinyLinear) + "--math tf32 --pass forward");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_EQ(outcome.out.find("inf"), std::string::npos) << outcome.out;
  EXPECT_TRUE(has(outcome.out, "floor -: "));
}

TEST(BenchProcess, SaysWhatIsWrong) {
  const BenchFolder folder;
  EXPECT_OUTCOME(folder.run(""), kExitUsage, "name a layer", "bench --help");
  EXPECT_OUTCOME(folder.run("conv2d"), kExitUsage, "needs --shape");
  EXPECT_OUTCOME(folder.run("--shape n=2,c=3"), kExitUsage, "belongs to a layer");
  EXPECT_OUTCOME(folder.run("relu --shape n=2,c=3 --config a.yaml"), kExitUsage, "give one of");
  EXPECT_OUTCOME(folder.run("relu --shape n=2,c=3 --write"), kExitUsage, "belong to --ladder");
  EXPECT_OUTCOME(folder.run("rellu --shape n=2,c=3"), kExitUsage, "did you mean 'relu'");
  EXPECT_OUTCOME(folder.run("flatten --shape n=2,c=3,h=4,w=4"), kExitUsage, "computes nothing");
  EXPECT_OUTCOME(folder.run("linear --shape n=4,in=5,uot=3"), kExitUsage,
                 "unknown word 'uot' (did you mean 'out'?)");
  EXPECT_OUTCOME(folder.run(std::string(kTinyLinear) + "--impl cpu_blass"), kExitUsage,
                 "did you mean 'cpu_blas'");
  EXPECT_OUTCOME(folder.run(std::string(kTinyLinear) + "--pass forwards"), kExitUsage,
                 "did you mean 'forward'");
  EXPECT_OUTCOME(folder.run(std::string(kTinyLinear) + "--batch 8..1"), kExitUsage, "not a range");
  EXPECT_OUTCOME(folder.run("relu --shape n=2,c=3 --impl cpu_blas"), kExitUnsupported,
                 "nothing of this can be measured on the cpu");
  if (!gpu_available()) {
    EXPECT_OUTCOME(folder.run("relu --shape n=2,c=3 --device gpu"), kExitUnsupported,
                   "this needs a GPU: ", "--device cpu");
    EXPECT_OUTCOME(folder.run("relu --shape n=2,c=3 --impl cudnn"), kExitUnsupported,
                   "this needs a GPU: ");
  }
  EXPECT_OUTCOME(folder.run(std::string(kTinyLinear) + "--out tiny.yaml/r.json"), kExitUsage,
                 "tiny.yaml/r.json", "cannot be written");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --device cpu --out tiny.yaml"), kExitUsage,
                 "--out tiny.yaml: is also the file of --config");
  EXPECT_OUTCOME(folder.run("relu --shape " + std::string(30'000, 'x')), kExitUsage,
                 "has no value");
  EXPECT_OUTCOME(folder.run("relu --shape n=2,c=3,x=9999999999x9999999999"), kExitUsage);
  EXPECT_OUTCOME(folder.run("relu --shape x=2147483647x2147483647"), kExitUsage,
                 "more than 2^40 elements");
  EXPECT_OUTCOME(folder.run("relu --shape n=2,c=3 --batch 1..9223372036854775807x2"), kExitUsage,
                 "not a range");
  EXPECT_OUTCOME(folder.run("relu --shape n=1000000,c=1000000 --device cpu"), kExitFailure,
                 "the reference alone takes", "choose a smaller batch or shape");
  // The reference, 12 times 8 bytes an element, would fit, but not an implementation beside it.
  const size_t features = host_memory() / (13 * 8) / 1000;
  EXPECT_OUTCOME(folder.run("relu --shape n=1000,c=" + std::to_string(features) + " --device cpu"),
                 kExitFailure, "1 implementation takes, beside the reference,",
                 "name fewer with --impl");
}

TEST(BenchProcess, RunsEachImplementationOnce) {
  const BenchFolder folder;
  const Outcome outcome =
      folder.run("linear --shape n=4,in=5,out=3 --device cpu --pass backward --once");
  EXPECT_OUTCOME(outcome, kExitDone);
  EXPECT_EQ(outcome.out,
            "linear n=4,in=5,out=3 backward_filter cpu_blas: ran once\n"
            "linear n=4,in=5,out=3 backward_filter cpu_reference: ran once\n"
            "linear n=4,in=5,out=3 backward_data cpu_blas: ran once\n"
            "linear n=4,in=5,out=3 backward_data cpu_reference: ran once\n");
  EXPECT_OUTCOME(folder.run("conv2d_pool_relu --shape n=2,c=3,h=8,w=8,k=4,r=3,s=3,pool_kernel=2 "
                            "--device cpu --once"),
                 kExitDone);
  EXPECT_OUTCOME(folder.run("softmax_cross_entropy --shape n=4,c=3 --device cpu --once"),
                 kExitDone);
  EXPECT_OUTCOME(folder.run(std::string(kTinyLinear) + "--once --out r.json"), kExitUsage,
                 "measure nothing");
  EXPECT_OUTCOME(folder.run("--ladder linear --once"), kExitUsage, "goes with --ncu alone");
}

TEST(BenchProcess, SanitizesKernelsOfAGpuAlone) {
  const BenchFolder folder;
  EXPECT_OUTCOME(folder.run(std::string(kTinyLinear) + "--sanitize"), kExitUnsupported,
                 "./duet test --preset sanitize");
}

// From results, and from the rows beside the page that it wrote before.
TEST(BenchProcess, WritesThePageOfSuites) {
  const BenchFolder folder;
  const std::string tiny = std::string(kTinyLinear) + "--impl cpu_blas,cpu_reference ";
  EXPECT_OUTCOME(folder.run(tiny + "--pass forward --out a.json"), kExitDone);
  EXPECT_OUTCOME(folder.run("--from a.json --write"), kExitUsage, "no docs/results above");
  fs::create_directories(folder / "docs/results");
  fs::create_directories(folder / "framework");
  EXPECT_OUTCOME(folder.run("--from a.json --write"), kExitDone, "docs/results/suites.md");
  EXPECT_TRUE(has(folder.read("docs/results/suites.md"), "linear forward", "--out a.json`"));
  EXPECT_OUTCOME(folder.run(tiny + "--pass backward_data --out b.json"), kExitDone);
  EXPECT_OUTCOME(folder.run("--from docs/results/suites.json b.json --write"), kExitDone);
  EXPECT_TRUE(has(folder.read("docs/results/suites.md"), "linear forward", "linear backward_data"));
}

TEST(BenchProcess, WritesTheTableOfALadder) {
  const BenchFolder folder;
  const fs::path layer = folder / "framework/layers/linear";
  fs::create_directories(layer);
  folder.write("framework/layers/linear/bench.yaml",
               "problems: [{layer: linear, name: fc1, shape: \"n=4,in=5,out=3\"}]\n");
  const std::string page =
      "# linear\n<!-- bench:linear -->\nNot measured yet.\n<!-- /bench -->\nend\n";
  folder.write("framework/layers/linear/README.md", page);
  const std::string ladder = "--ladder linear --device cpu --quick --pass forward ";
  const Outcome shown = folder.run(ladder);
  EXPECT_OUTCOME(shown, kExitDone);
  EXPECT_TRUE(has(shown.out, "fc1: `n=4,in=5,out=3`", "| `cpu_blas` |"));
  EXPECT_EQ(folder.read("framework/layers/linear/README.md"), page);
  EXPECT_OUTCOME(folder.run(ladder + "--write"), kExitUsage, "replaces the whole table", "--pass");
  EXPECT_EQ(folder.read("framework/layers/linear/README.md"), page);
  const std::string whole = "--ladder linear --device cpu --quick --write";
  EXPECT_OUTCOME(folder.run(whole), kExitDone, "wrote the table in");
  const std::string written = folder.read("framework/layers/linear/README.md");
  EXPECT_TRUE(has(written, "# linear\n<!-- bench:linear -->\n<!-- measured on the cpu -->\nfc1:",
                  "| `cpu_reference` |", "`bench --ladder linear", "<!-- /bench -->\nend\n"));
  // The same in parts.
  folder.write("framework/layers/linear/README.md", page);
  const std::string part = "--ladder linear --device cpu --quick --pass ";
  EXPECT_OUTCOME(folder.run(part + "forward --out f.json"), kExitDone);
  EXPECT_OUTCOME(folder.run("--ladder linear --from f.json --write"), kExitUsage,
                 "backward_data of all problems; backward_filter of all problems",
                 "name that file too");
  EXPECT_EQ(folder.read("framework/layers/linear/README.md"), page);
  EXPECT_OUTCOME(folder.run(part + "backward --out b.json"), kExitDone);
  EXPECT_OUTCOME(folder.run("--ladder linear --from b.json f.json --write"), kExitDone,
                 "wrote the table in");
  const std::string joined = folder.read("framework/layers/linear/README.md");
  EXPECT_TRUE(has(joined, "\n<!-- measured on the cpu -->\nfc1: `n=4,in=5,out=3`\n\n| | forward,",
                  "--pass backward --out b.json`, `bench --ladder linear",
                  "<!-- /bench -->\nend\n"))
      << joined;
  std::string other = folder.read("b.json");
  other.replace(other.find("\"quick\": true"), 13, "\"quick\": false");
  folder.write("b.json", other);
  EXPECT_OUTCOME(folder.run("--ladder linear --from b.json f.json --write"), kExitUsage,
                 "one way of timing", " with --quick");
  EXPECT_OUTCOME(folder.run(part + "forward --impl cpu_blas --out f.json"), kExitDone);
  EXPECT_OUTCOME(folder.run("--ladder linear --from f.json --write"), kExitUsage,
                 "cpu_reference was left out", "without --impl");
  EXPECT_OUTCOME(folder.run("--ladder linear --from f.json --pass forward"), kExitUsage,
                 "--from measures nothing");
  EXPECT_OUTCOME(folder.run("--ladder linear --from f.json --summary s.md"), kExitUsage,
                 "of suites");
  folder.write("framework/layers/linear/README.md", "# linear\n");
  EXPECT_OUTCOME(folder.run(whole), kExitUsage, "<!-- bench:linear -->", "Nothing was written");
}

}  // namespace
}  // namespace duet
