// The compare application as a process: what it prints and writes, its exit codes, and that wrong
// use is told before anything is measured.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include "compare/report/report.h"
#include "compare/results_fixture.h"
#include "core/error.h"
#include "device/device.h"
#include "support/trainer_process.h"
#include "test_paths.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kCpuArms = "--a cpu_blas --b cpu_reference ";
constexpr const char* kShort = "--quick --seeds 1 --batch 16 ";

struct CompareFolder : TrainerFolder {
  CompareFolder() : TrainerFolder(DUET_COMPARE) {}
  // On the CPU, whatever this machine has.
  Outcome compare(const std::string& arguments) const {
    return run(std::string("--config tiny.yaml ") + kCpuArms + kShort + arguments);
  }
};

TEST(Compare, PrintsTablesAndWritesEveryFile) {
  const CompareFolder folder;
  const Outcome outcome = folder.compare(
      "--out a/results.json --markdown a/results.md --report a/report.html "
      "--svg a/step.svg");
  EXPECT_OUTCOME(outcome, kExitDone, "64 training and 32 validation images",
                 "cpu_reference (no cpu_blas)", "a/results.json");
  const std::vector<std::string> lines = lines_of(outcome.out);
  // A headline, as nothing is wrong; on a busy machine it is unclear which is faster.
  EXPECT_TRUE(has(lines.at(0), "cpu_blas is ", "cpu_reference in a training step"));
  for (size_t i = 1; i < lines.size(); ++i) EXPECT_LE(lines[i].size(), 140u) << lines[i];
  EXPECT_TRUE(has(outcome.out, "training, batch 16, epochs 1", "throughput in training",
                  "throughput in inference", "the same bits", "final loss"));
  const json results = json::parse(folder.read("a/results.json"));
  EXPECT_EQ(results["schema"], "duet.compare/1");
  EXPECT_EQ(results["name"], "tiny");
  EXPECT_EQ(results["math"], "fp32");
  EXPECT_EQ(results["quick"], true);
  EXPECT_EQ(results["arms"][0]["name"], "cpu_blas");
  EXPECT_EQ(results["arms"][1]["network"][0]["passes"][0]["implementation"], "cpu_reference");
  EXPECT_EQ(results["training"]["seeds"], json::array({1}));
  EXPECT_EQ(results["training"]["differences"][0]["verdict"], "unclear");  // of one seed
  EXPECT_EQ(outcome.out.find("- to -"), std::string::npos);
  EXPECT_EQ(results["throughput"].size(), 1u);
  EXPECT_EQ(results["layers"][0]["rows"][0]["layer"], "conv1");
  EXPECT_GT(results["seconds"], 0.0);
  EXPECT_FALSE(results["environment"]["cpu"].get<std::string>().empty());
  EXPECT_TRUE(has(results["command"].get<std::string>(), "compare --config tiny.yaml"));
  EXPECT_TRUE(has(folder.read("a/results.md"), "cpu_blas"));
  EXPECT_TRUE(has(folder.read("a/step.svg"), "A training step of tiny", "cpu_reference", "conv1"));
  EXPECT_EQ(fs::exists(folder / "a/report.html"), report_available());
}

TEST(Compare, PrintsOneJsonObject) {
  const CompareFolder folder;
  folder.write("my$net.yaml", kTinyNetwork);
  const std::string options = std::string(kCpuArms) + kShort + "--json --quiet --only throughput";
  const Outcome outcome = folder.run("--config my$net.yaml " + options);
  EXPECT_EQ(outcome.code, kExitDone);
  EXPECT_EQ(outcome.err, "");
  const json results = json::parse(outcome.out);
  EXPECT_FALSE(results.contains("training"));
  EXPECT_EQ(results["throughput"][0]["batch"], 16);
  EXPECT_EQ(results["command"], "compare --config 'my$net.yaml' " + options);
}

TEST(Compare, SaysOnceWhyABatchWasNotMeasured) {
  const CompareFolder folder;
  const Outcome outcome = folder.run(std::string("--config tiny.yaml ") + kCpuArms +
                                     "--c cpu --quick --only throughput");
  EXPECT_OUTCOME(outcome, kExitDone);
  if (has(outcome.out, "1,024 (--batch asks for others)")) {
    GTEST_SKIP() << "needs a faster machine: --quick leaves the batch out on this one";
  }
  const std::string reason = " cpu_reference  a batch of 1024 is larger than the 64 training";
  const size_t first = outcome.out.find(reason);
  EXPECT_NE(first, std::string::npos) << outcome.out;
  EXPECT_EQ(first, outcome.out.rfind(reason));
  const std::string headline = outcome.out.substr(0, outcome.out.find('\n'));
  EXPECT_TRUE(has(headline, "batch"));
  for (const std::string& line : lines_of(outcome.out)) EXPECT_LE(line.size(), 140u) << line;
}

TEST(Compare, RefusesBatchesThatTheDataDoNotHave) {
  const CompareFolder folder;
  const std::string start = std::string("--config tiny.yaml ") + kCpuArms + "--quick ";
  const Outcome outcome = folder.run(start + "--only throughput --batch 16,65 --out r.json");
  EXPECT_OUTCOME(outcome, kExitUsage, "--batch 65: ", "has 64 training images");
  EXPECT_EQ(outcome.err.find("steps of batch"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(folder / "r.json"));
}

TEST(Compare, ASavedRunPrintsTheSame) {
  const CompareFolder folder;
  const Outcome measured = folder.compare("--only training --out r.json");
  const Outcome read = folder.run("--from r.json --out again.json --markdown r.md");
  EXPECT_OUTCOME(read, kExitDone);
  EXPECT_EQ(read.out, measured.out);
  EXPECT_EQ(folder.read("again.json"), folder.read("r.json"));
  EXPECT_TRUE(has(folder.read("r.md"), "tiny"));
  const Outcome report = folder.run("--from r.json --report r.html");
  if (report_available()) {
    EXPECT_OUTCOME(report, kExitDone, "r.html");
    EXPECT_TRUE(has(folder.read("r.html"), "<html"));
  } else {
    EXPECT_OUTCOME(report, kExitFailure, "chart library");
  }
}

TEST(Compare, WhatCannotBeReadIsTold) {
  const CompareFolder folder;
  folder.write("cut.json", "{\"schema\": \"duet.com");
  folder.write("other.json", "{\"rows\": []}");
  folder.write("newer.json", "{\"schema\": \"duet.compare/9\"}");
  folder.write("armless.json", "{\"schema\": \"duet.compare/1\"}");
  folder.write("layers.json",
               R"({"schema": "duet.compare/1", "arms": [{"name": "a"}], "layers": {"a": 1}})");
  EXPECT_OUTCOME(folder.run("--from none.json"), kExitUsage, "none.json", "cannot open");
  EXPECT_OUTCOME(folder.run("--from ."), kExitUsage, "is a folder");
  EXPECT_OUTCOME(folder.run("--from cut.json"), kExitUsage, "cut.json", "not JSON, or cut short");
  EXPECT_OUTCOME(folder.run("--from other.json"), kExitUsage, "not results of compare");
  EXPECT_OUTCOME(folder.run("--from newer.json"), kExitUsage, "duet.compare/9", "duet.compare/1");
  EXPECT_OUTCOME(folder.run("--from armless.json"), kExitUsage, "'arms'", "damaged");
  EXPECT_OUTCOME(folder.run("--from layers.json"), kExitUsage, "'layers'", "damaged");
  for (const char* place : {"-1", "1e300", "0.5", "2"}) {
    SCOPED_TRACE(place);
    json results = results_fixture();
    results["training"]["differences"][0]["b"] = json::parse(place);
    folder.write("places.json", results.dump());
    EXPECT_OUTCOME(folder.run("--from places.json"), kExitUsage, "'training.differences[0].b' is ",
                   "not one of the 2 arms");
  }
  json wide = results_fixture();
  for (int i = 0; i < 1000; ++i) wide["arms"].push_back({{"name", "one of many"}});
  folder.write("wide.json", wide.dump());
  EXPECT_OUTCOME(folder.run("--from wide.json"), kExitUsage, "more rows and arms");
}

// Whoever waited for a pipe's content could wait for ever.
TEST(Compare, APipeIsRefusedAtOnce) {
  const CompareFolder folder;
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "pipe.yaml");
  for (const std::string arguments :
       {"--from pipe", "--config pipe", "--config tiny.yaml --a cpu_blas --b pipe.yaml",
        "--config tiny.yaml --into pipe"}) {
    SCOPED_TRACE(arguments);
    EXPECT_OUTCOME(folder.run(arguments), kExitUsage, "pipe", ": is a pipe, not a regular file");
  }
}

TEST(Compare, ResultsNestedWithoutBoundsAreRefused) {
  const CompareFolder folder;
  folder.write("deep.json", R"({"schema": "duet.compare/1", "arms": [{"name": "a"}], "layers": )" +
                                std::string(100'000, '['));
  EXPECT_OUTCOME(folder.run("--from deep.json"), kExitUsage, "deep.json", "more than 64 deep");
  fs::resize_file(folder / "deep.json", uint64_t{20} << 30);  // sparse
  EXPECT_OUTCOME(folder.run("--from deep.json"), kExitUsage, "deep.json", "21474836480 bytes");
}

TEST(Compare, FailsWhereAskedTo) {
  const CompareFolder folder;
  EXPECT_OUTCOME(folder.compare("--only throughput --out r.json"), kExitDone);
  // Whatever this machine measured, and however clearly.
  json results = json::parse(folder.read("r.json"));
  const json slower = {{"a", 0},      {"b", 1},       {"speedup", 0.07},
                       {"low", 0.06}, {"high", 0.08}, {"verdict", "slower"}};
  for (const char* key : {"training_ratios", "inference_ratios"}) {
    ASSERT_EQ(results["throughput"][0][key].size(), 1u) << key;
    results["throughput"][0][key][0] = slower;
  }
  folder.write("slow.json", results.dump());
  const std::string slow = "--from slow.json --fail-on ";
  EXPECT_OUTCOME(folder.run(slow + "slower --out again.json"), kExitComparison, "cpu_blas is 0.07",
                 "as fast as cpu_reference in a training step of batch 16",
                 "in inference of batch 16");
  EXPECT_TRUE(fs::exists(folder / "again.json"));  // written first
  EXPECT_OUTCOME(folder.run(slow + "slower:0.5"), kExitComparison);
  EXPECT_OUTCOME(folder.run(slow + "slower:0.05"), kExitDone);
  EXPECT_OUTCOME(folder.run(slow + "mismatch"), kExitDone);  // its steps were checked
  EXPECT_OUTCOME(folder.run(std::string("--config tiny.yaml ") + kCpuArms +
                            "--quick --batch 65 --only throughput --fail-on slower"),
                 kExitUsage, "--batch 65");
}

TEST(Compare, ASummaryIsNotTrusted) {
  const CompareFolder folder;
  json results = mismatch_fixture();
  results.erase("summary");
  folder.write("r.json", results.dump());
  const Outcome outcome = folder.run("--from r.json --fail-on mismatch");
  EXPECT_OUTCOME(outcome, kExitComparison, "y[0] is all zeros");
  EXPECT_EQ(outcome.out.find("MISMATCH first in conv2"), 0u) << outcome.out;
}

TEST(Compare, InterruptedLeavesWhatIsFinished) {
  const CompareFolder folder;
  const std::string arguments = std::string("--config tiny.yaml ") + kCpuArms +
                                "--quick --seeds 1 --batch 1,2,4,8,16,32,64,1,2,4,8,16 --out "
                                "r.json --only training,throughput";
  const Outcome early = folder.run_until(arguments, "stderr", SIGINT, "steps of batch 16:");
  EXPECT_OUTCOME(early, kExitInterrupted, "interrupted");
  EXPECT_FALSE(fs::exists(folder / "r.json"));
  const Outcome late = folder.run_until(arguments, "stderr", SIGINT, "steps of batch 2:");
  EXPECT_OUTCOME(late, kExitInterrupted, "interrupted");
  const json results = json::parse(folder.read("r.json"));
  EXPECT_EQ(results["stopped"], "interrupted");
  EXPECT_TRUE(results.contains("training"));
  ASSERT_EQ(results["throughput"].size(), 1u);
  EXPECT_EQ(results["throughput"][0]["batch"], 1);
  EXPECT_TRUE(has(late.out, "training, batch 16"));
  EXPECT_EQ(late.out.find("STOPPED before its end: interrupted; "), 0u) << late.out;
}

TEST(Compare, InterruptedLeavesTheRowsOfLayers) {
  const CompareFolder folder;
  const std::string page = "<!-- compare -->\nold\n<!-- /compare -->\n";
  folder.write("page.md", page);
  const std::string arguments = std::string("--config tiny.yaml ") + kCpuArms + kShort;
  const Outcome outcome = folder.run_until(arguments + "--out r.json --into page.md", "stderr",
                                           SIGINT, "measuring fc1 forward");
  EXPECT_OUTCOME(outcome, kExitInterrupted, "interrupted", "page.md: nothing was written");
  const json results = json::parse(folder.read("r.json"));
  ASSERT_EQ(results["layers"].size(), 1u);
  EXPECT_GE(results["layers"][0]["rows"].size(), 2u);
  EXPECT_FALSE(results["layers"][0].contains("totals"));
  EXPECT_TRUE(has(outcome.out, "layers, batch 16"));
  EXPECT_EQ(folder.read("page.md"), page);
}

// Whatever runs then: blocks of steps, a reference in double, an examination. It takes 0.2 s, and much
// else may run on the machine.
TEST(Compare, InterruptedEndsWithinFiveSeconds) {
  const CompareFolder folder;
  folder.write("net.yaml", changed(kTinyNetwork,
                                   {{"size: 8", "size: 24"},
                                    {"out_channels: 4, kernel: 3", "out_channels: 8, kernel: 5"}}));
  const std::string arguments =
      std::string("--config net.yaml ") + kCpuArms + kShort + "--set data.batch=16 --out r.json";
  const auto interrupt = [&](const std::string& text) {  // as soon as that is logged
    fs::remove(folder / "r.json");
    const Outcome outcome = folder.run_until(arguments, "stderr", SIGINT, text);
    EXPECT_OUTCOME(outcome, kExitInterrupted, "interrupted", text);
    EXPECT_LT(outcome.seconds_after_signal, 5) << text;
  };
  interrupt("steps of batch");
  EXPECT_FALSE(fs::exists(folder / "r.json"));  // nothing is measured yet
  for (const char* text : {"measuring conv1 backward_filter", "training: 20 losses"}) {
    interrupt(text);
    const json results = json::parse(folder.read("r.json"));
    EXPECT_EQ(results["stopped"], "interrupted") << text;
    EXPECT_GE(results["layers"][0]["rows"].size(), 2u) << text;
  }
}

TEST(Compare, KilledLeavesTheRowsThatAreFinished) {
  const CompareFolder folder;
  const std::string arguments = std::string("--config tiny.yaml ") + kCpuArms + kShort;
  const Outcome outcome =
      folder.run_until(arguments + "--out r.json", "stderr", SIGKILL, "measuring fc1 forward");
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  const json results = json::parse(folder.read("r.json"));
  EXPECT_GE(results["layers"][0]["rows"].size(), 1u);
  const std::string stopped = results["stopped"];
  EXPECT_EQ(stopped.find("the program ended without a word while "), 0u) << stopped;
  const Outcome shown = folder.run("--from r.json");
  EXPECT_OUTCOME(shown, kExitDone);
  EXPECT_EQ(shown.out.find("STOPPED before its end: the program ended"), 0u) << shown.out;
}

TEST(Compare, OneOutputThatFailsLeavesTheOthers) {
  const CompareFolder folder;
  EXPECT_OUTCOME(folder.compare("--only throughput --out r.json --markdown r.md"), kExitDone);
  const Outcome shown = folder.run("--from r.json");
  const size_t small = std::max(folder.read("r.md").size(), shown.out.size());
  ASSERT_LT(small, folder.read("r.json").size());
  const Outcome full = folder.run("--from r.json --out again.json --markdown again.md",
                                  {.environment = {}, .most_file_bytes = small});
  EXPECT_OUTCOME(full, kExitFailure, "cannot write again.json");
  EXPECT_FALSE(fs::exists(folder / "again.json"));
  EXPECT_EQ(folder.read("again.md"), folder.read("r.md"));
  EXPECT_EQ(full.out, shown.out);
  // The same of standard output.
  EXPECT_OUTCOME(folder.run("--from r.json --json", {.environment = {}, .most_file_bytes = small}),
                 kExitFailure, "cannot write to standard output");
  // The page has no table to lose.
  folder.write("page.md", "<!-- compare -->\nold\n<!-- /compare -->\n");
  EXPECT_OUTCOME(folder.run("--from r.json --into page.md"), kExitUsage, "page.md", "'layers'",
                 "missing");
  EXPECT_TRUE(has(folder.read("page.md"), "old"));
}

TEST(Compare, FilesThatAreInTheWayAreKept) {
  const CompareFolder folder;
  EXPECT_OUTCOME(folder.compare("--only throughput --out r.json"), kExitDone);
  const std::string results = folder.read("r.json");
  folder.write("again.json.probe", "mine");
  folder.write("kept.json", "mine");
  folder.write("arm.yaml", kTinyNetwork);
  folder.write("page.md", "<!-- compare -->\nold\n<!-- /compare -->\n");
  for (const char* name : {"kept.json", "page.md"}) {
    fs::permissions(folder / name, fs::perms::owner_read);
  }
  fs::create_symlink("r.json", folder / "link.json");
  EXPECT_OUTCOME(folder.run("--from r.json --out again.json"), kExitDone);
  EXPECT_EQ(folder.read("again.json.probe"), "mine");
  const std::pair<std::string, std::string> cases[] = {
      {"--from r.json --out kept.json", "--out kept.json: cannot be written: it is read-only"},
      {"--from r.json --into page.md", "--into page.md: cannot be written: it is read-only"},
      {"--from r.json --out r.json", "is also the file of --from"},
      {"--from r.json --out link.json", "is also the file of --from"},
      {"--from r.json --out ./new --markdown new", "is also the file of --out"},
      {"--from r.json --out stdout", "is also the file of standard output"},
      {"--config tiny.yaml --out tiny.yaml", "is also the file of --config"},
      {"--config tiny.yaml --a cpu --b arm.yaml --out arm.yaml",
       "is also the file of arm arm.yaml"},
      {"--config tiny.yaml --into page.md --only training", "--only leaves 'layers' out"},
  };
  for (const auto& [arguments, message] : cases) {
    EXPECT_OUTCOME(folder.run(arguments), kExitUsage, message);
  }
  EXPECT_EQ(folder.read("kept.json"), "mine");
  EXPECT_EQ(folder.read("r.json"), results);
  EXPECT_EQ(folder.read("tiny.yaml"), kTinyNetwork);
}

TEST(Compare, AutoIsExplained) {
  const CompareFolder folder;
  const Outcome outcome = folder.run(
      std::string("--config tiny.yaml --a auto --b cpu_reference --only throughput ") + kShort,
      {.environment = {"CUDA_VISIBLE_DEVICES=-1"}});  // 'auto' is the GPU's where there is one
  EXPECT_OUTCOME(outcome, kExitDone, "auto: ready in", "us; cpu_");
  EXPECT_EQ(outcome.err.find("to be measured"), std::string::npos) << outcome.err;
}

TEST(Compare, WrongUseIsTold) {
  const CompareFolder folder;
  folder.write("file", "x");
  const std::string tiny = std::string("--config tiny.yaml ") + kCpuArms;
  const struct {
    std::string arguments;
    std::vector<std::string> parts;
  } cases[] = {
      {"", {"--config FILE is needed", "--from", "--help"}},
      {"--confg tiny.yaml", {"did you mean '--config'?"}},
      {"--config none.yaml", {"none.yaml", "cannot open"}},
      {"--config tiny.yaml --arm cpu", {"one arm alone", "--b"}},
      {"--config tiny.yaml --a cpu_blass --b cpu", {"'cpu_blass'", "did you mean 'cpu_blas'?"}},
      {"--config tiny.yaml --a other.yaml --b cpu", {"other.yaml", "cannot open"}},
      {"--config tiny.yaml --a '' --b cpu", {"--a", "is empty"}},
      {tiny + "--batch ''", {"--batch", "is empty"}},
      {tiny + "--out ''", {"--out", "is empty"}},
      {tiny + "--only layer,trainin", {"--only layer:", "did you mean 'training'?", "throughput"}},
      {tiny + "--batch 0", {"--batch 0", "1 to 2147483647 images"}},
      {tiny + "--batch 2147483648", {"--batch 2147483648", "1 to 2147483647 images"}},
      {tiny + "--seeds 1001", {"--seeds 1001", "1 to 1000"}},
      {tiny + "--seeds 010", {"--seeds", "expected a whole number, found '010'"}},
      {tiny + "--batch many", {"--batch", "many"}},
      {tiny + "--batch 99999999999999999999", {"--batch 99999999999999999999", "too large"}},
      {tiny + "--set backend=cpu", {"--set backend=cpu", "--a"}},
      {tiny + "--seeds 0", {"--seeds 0", "1 to 1000"}},
      {tiny + "--seeds x", {"--seeds", "x"}},
      {tiny + "--epochs 0", {"train: epochs"}},
      {tiny + "--set layers.conv1.kernel=9", {"layer conv1", "9x9"}},
      {tiny + "--set nothing", {"--set nothing", "a.b=value"}},
      {tiny + "--fail-on slow", {"--fail-on slow", "did you mean 'slower'?"}},
      {tiny + "--fail-on slower:fast", {"slower:fast", "0.95"}},
      {tiny + "--fail-on slower:-1", {"slower:-1"}},
      {tiny + "--out .", {"--out", "is a folder"}},
      {tiny + "--out file/r.json", {"--out file/r.json", "cannot be written"}},
      {tiny + "--report file/r.html", {"--report file/r.html", "cannot be written"}},
      {tiny + "--svg file/r.svg", {"--svg file/r.svg", "cannot be written"}},
      {tiny + "--svg r.svg --only training", {"--svg r.svg", "leaves 'layers' out"}},
      {tiny + "--markdown .", {"--markdown", "is a folder"}},
      {tiny + "--out " + std::string(300, 'x'), {"--out", "xxx: cannot be written", "too long"}},
      {tiny + "--markdown " + std::string(252, 'x'), {"--markdown", "too long"}},
      {tiny + "--from r.json", {"--from", "excludes"}},
      {"--from r.json --batch 3", {"--from", "excludes"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.arguments);
    const Outcome outcome = folder.run(c.arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.find("images,"), std::string::npos) << "the data was loaded";
    for (const std::string& part : c.parts) {
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
    }
  }
  EXPECT_OUTCOME(folder.run(tiny + "--set data.dataset=mnist --data file"), kExitUsage);
  const Outcome help = folder.run("--help");
  EXPECT_EQ(help.code, kExitDone);
  EXPECT_TRUE(has(help.out, "Examples:", "--fail-on", "--report", "Exit codes", "An arm is"));
}

TEST(Compare, WithoutAGpuSaysWhatToDo) {
  if (gpu_available()) GTEST_SKIP() << "needs a machine without a GPU";
  const CompareFolder folder;
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --a custom --b cudnn"), kExitUnsupported,
                 "arm 'custom' needs a GPU", "arm 'cudnn' needs a GPU",
                 "--a cpu_blas --b cpu_reference");
  // Nor are they the default.
  EXPECT_OUTCOME(folder.run(std::string("--config tiny.yaml --only throughput ") + kShort),
                 kExitDone, "cpu_blas: ready", "cpu_reference: ready");
  EXPECT_OUTCOME(
      folder.run(std::string("--config tiny.yaml --a cpu_reference --only throughput ") + kShort),
      kExitDone, "cpu_blas: ready", "cpu_reference: ready");
  // One arm is enough, whatever its place.
  const Outcome one =
      folder.run("--config tiny.yaml --c cpu_reference --only throughput " + std::string(kShort));
  EXPECT_OUTCOME(one, kExitDone, "cpu_blas: ready", "cpu_reference: ready");
  EXPECT_EQ(one.err.find("#2"), std::string::npos) << one.err;
}

}  // namespace
}  // namespace duet
