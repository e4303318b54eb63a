// The trainer's command line: what it prints, and that wrong use is told in words that help.
#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <set>

#include "core/error.h"
#include "data/set/dataset.h"
#include "device/device.h"
#include "layers/layers.h"
#include "net/expand.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "support/trainer_process.h"
#include "test_paths.h"

namespace duet {
namespace {

using nlohmann::json;

TEST(TrainerCommandLine, WithoutArgumentsSaysWhatIsNeeded) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run(""), kExitUsage, "--config FILE is needed", "--help");
}

TEST(TrainerCommandLine, HelpHasExamplesAndExitCodes) {
  const TrainerFolder folder;
  const Outcome help = folder.run("--help");
  EXPECT_EQ(help.code, kExitDone);
  EXPECT_TRUE(has(help.out, "Examples:", "trainer --config configs/", "--resume last", "Exit codes",
                  "--dry-run", "trainer list impls"));
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(folder.run("--version").code, kExitDone);
}

TEST(TrainerCommandLine, WrongUseIsTold) {
  const TrainerFolder folder;
  const struct {
    const char* arguments;
    std::vector<std::string> parts;
  } cases[] = {
      {"--foo", {"--foo", "--help"}},
      {"--confg tiny.yaml", {"--confg", "did you mean '--config'?"}},
      {"lst layers", {"did you mean 'list'?"}},
      {"--config", {"--config", "FILE"}},
      {"--config tiny.yaml --epochs many", {"--epochs: expected a whole number, found 'many'"}},
      {"--config tiny.yaml --epochs 99999999999999999999", {"--epochs", "at most 18 digits"}},
      {"--config tiny.yaml --resume a --evaluate b", {"--resume", "excludes", "--evaluate"}},
      {"--config tiny.yaml --out a --evaluate b", {"--out", "excludes", "--evaluate"}},
      {"--config tiny.yaml --profile --evaluate b", {"--profile", "excludes", "--evaluate"}},
      {"--config tiny.yaml --data ''", {"--data: the value is empty"}},
      {"list",
       {"list: expected one of layers, impls, datasets, optimizers, schedules",
        "trainer list impls"}},
      {"list layer", {"found 'layer'", "did you mean 'layers'?"}},
      {"tiny.yaml", {"tiny.yaml", "did you mean '--config tiny.yaml'?"}},
      {"doctor --config tiny.yaml", {"--config does not belong to 'doctor'"}},
      {"--config tiny.yaml doctor", {"--config: does not belong to 'doctor'"}},
      {"doctor --data ''", {"--data: the value is empty"}},
      {"list kernels", {"kernels", "layers", "impls", "datasets", "optimizers", "schedules"}},
      {"--config none.yaml", {"none.yaml", "cannot open"}},
      {"--config .", {"is a folder", "YAML file"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.arguments);
    const Outcome outcome = folder.run(c.arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(outcome.out, "");
    for (const std::string& part : c.parts) {
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
    }
  }
}

TEST(TrainerCommandLine, SetTellsItsMistakes) {
  const TrainerFolder folder;
  const struct {
    const char* assignment;
    std::vector<std::string> parts;
  } cases[] = {
      {"batch", {"--set batch", "expected a.b=value"}},
      {"=3", {"expected a.b=value"}},
      {"a..b=3", {"expected a.b=value"}},
      {"backend.x=3", {"nothing below 'cpu'"}},
      {"layers.conv9.kernel=3", {"no item 'conv9'"}},
      {"layers.7.kernel=3", {"no item '7'"}},
      {"data.batch=[1", {"not valid YAML"}},
      {"data.batch=", {"command line: data: key 'batch' has no value"}},
      {"data.batch=0", {"command line: data: batch: expected a whole number", "'0'"}},
      {"data.bach=8", {"command line: data: unknown key 'bach'", "did you mean 'batch'?"}},
      {"new.key=8", {"command line: configuration: unknown key 'new'"}},
      {"layers.conv1.kernel=[0,3]", {"command line: layer conv1 (conv2d): kernel"}},
      {"layers.relu1={type:rel}", {"command line: layer 2"}},
      {"layers=5", {"'layers' must be a list"}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.assignment);
    const Outcome outcome =
        folder.run(std::string("--config tiny.yaml --dry-run --set ") + c.assignment);
    EXPECT_EQ(outcome.code, kExitUsage) << outcome.err;
    for (const std::string& part : c.parts) {
      EXPECT_NE(outcome.err.find(part), std::string::npos) << part << " is not in: " << outcome.err;
    }
  }
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --dry-run --epochs 0"), kExitUsage,
                 "command line: train: epochs");
  for (const char* number : {"010", "0x10", "1e3", "+5", "5.", "nan"}) {
    EXPECT_OUTCOME(folder.run(std::string("--config tiny.yaml --dry-run --epochs ") + number),
                   kExitUsage, "--epochs",
                   std::string("expected a whole number, found '") + number + "'");
  }
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --dry-run --seed -1"), kExitUsage,
                 "command line: configuration: seed");
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --dry-run --seed 99999999999"), kExitUsage,
                 "from 0 to 2147483647");
}

TEST(TrainerCommandLine, ListsEverythingThereIs) {
  const TrainerFolder folder;
  const auto rows = [&](const std::string& what) {
    const Outcome outcome = folder.run("list " + what + " --json");
    EXPECT_EQ(outcome.code, kExitDone);
    EXPECT_EQ(outcome.err, "");
    return json::parse(outcome.out);
  };
  const json layers = rows("layers"), impls = rows("impls");
  EXPECT_EQ(layers.size(), layer_types().size() + composite_types().size());
  EXPECT_EQ(layers[0]["layer"], layer_types()[0]->name);
  EXPECT_EQ(layers.back()["layer"], composite_types().back().name);
  EXPECT_EQ(rows("datasets").size(), dataset_types().size());
  EXPECT_EQ(rows("optimizers").size(), optimizer_types().size());
  EXPECT_EQ(rows("schedules").size(), schedule_types().size());
  size_t implementations = 0;
  for (const LayerType* type : layer_types()) implementations += type->implementations().size();
  EXPECT_EQ(impls.size(), implementations);
  for (const char* what : {"layers", "impls", "datasets", "optimizers", "schedules"}) {
    const Outcome table = folder.run(std::string("list ") + what);
    EXPECT_EQ(table.code, kExitDone);
    for (const auto& row : rows(what)) {
      const std::string name = row.items().begin().value();
      EXPECT_NE(table.out.find(name), std::string::npos) << name;
    }
  }
}

TEST(TrainerCommandLine, DoctorDescribesTheMachine) {
  const TrainerFolder folder;
  const Outcome text = folder.run("doctor");
  EXPECT_EQ(text.code, kExitDone);
  EXPECT_TRUE(has(text.out, "GPU", "data set fashion_mnist"));
  const std::string gpu = gpu_available() ? gpu_name() : gpu_missing_reason();
  EXPECT_TRUE(has(text.out, gpu));
  const json report = json::parse(folder.run("doctor --json").out);
  EXPECT_EQ(report["gpu"].get<std::string>().empty(), !gpu_available());
  EXPECT_EQ(report["datasets"]["synthetic_images"], "generated");
  EXPECT_TRUE(report.contains("duet"));
  EXPECT_TRUE(report["versions"].is_object());
}

// An IDX file of `count` images of 28x28, or of as many labels.
std::string idx(char count, bool images) {
  std::string bytes = {0, 0, 8, static_cast<char>(images ? 3 : 1), 0, 0, 0, count};
  if (!images) return bytes + std::string(count, '\1');
  for (int i = 0; i < 2; ++i) bytes += std::string({0, 0, 0, 28});
  return bytes + std::string(count * 28 * 28, '\7');
}

TEST(TrainerCommandLine, DoctorReadsWhatIsInTheFolder) {
  const TrainerFolder folder;
  for (const std::string kind : {"train", "t10k"}) {
    const char count = kind == "train" ? 5 : 3;
    folder.write("data/mnist/" + kind + "-images-idx3-ubyte", idx(count, true));
    folder.write("data/mnist/" + kind + "-labels-idx1-ubyte", idx(count, false));
  }
  const auto findings = [&](const std::string& name) {
    const Outcome outcome = folder.run("doctor --json --data data");
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return json::parse(outcome.out)["dataset_findings"][name].get<std::string>();
  };
  EXPECT_TRUE(has(findings("mnist"), "data/mnist: 5 + 3 images, not those published as mnist"));
  EXPECT_TRUE(has(findings("fashion_mnist"), "not found: data/fashion_mnist: no such folder",
                  "data: it has no train-images-idx3-ubyte[.gz]"));
  EXPECT_EQ(findings("synthetic_images"), "generated");
  EXPECT_TRUE(has(folder.run("doctor --data data").out, "5 + 3 images", "not found"));
  folder.write("data/mnist/t10k-labels-idx1-ubyte", idx(2, false));
  EXPECT_TRUE(has(findings("mnist"), "cannot be read: data/mnist/t10k-labels", "found 2"));
  std::filesystem::remove(folder / "data/mnist/t10k-labels-idx1-ubyte");
  EXPECT_TRUE(has(findings("mnist"), "not found: data/mnist: it has no t10k-labels-idx1-ubyte"));
}

TEST(TrainerCommandLine, OutputThatCannotBeWrittenIsAFailure) {
  if (!std::ofstream("/dev/full")) GTEST_SKIP() << "needs /dev/full";
  const int status = std::system(DUET_TRAINER " list layers >/dev/full 2>/dev/null");
  EXPECT_EQ(WEXITSTATUS(status), kExitFailure);
}

TEST(TrainerCommandLine, DryRunPrintsTheNetworkAndLeavesNothing) {
  const TrainerFolder folder;
  const Outcome table = folder.run("--config tiny.yaml --dry-run");
  EXPECT_EQ(table.code, kExitDone);
  EXPECT_EQ(table.err, "");
  EXPECT_TRUE(has(table.out, "conv1", "16x4x6x6", "cpu_blas", "parameters: 620"));
  const json network = json::parse(folder.run("--config tiny.yaml --dry-run --json").out);
  EXPECT_EQ(network["parameters"], 620);
  EXPECT_EQ(network["layers"].size(), 5u);
  // Another request wins over the file, and the table says so.
  const Outcome reference = folder.run("--config tiny.yaml --dry-run --backend cpu_reference");
  EXPECT_EQ(reference.out.find("cpu_blas"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
}

TEST(TrainerCommandLine, ShowPrintsWhatADryRunPrintsAndDraws) {
  const TrainerFolder folder;
  for (const std::string more :
       {"", " --json", " --backend cpu_reference", " --set layers.conv1.out_channels=5"}) {
    const Outcome shown = folder.run("show tiny.yaml" + more);
    EXPECT_EQ(shown.code, kExitDone) << shown.err;
    EXPECT_EQ(shown.out, folder.run("--config tiny.yaml --dry-run" + more).out);
  }
  EXPECT_EQ(folder.run("show tiny.yaml --svg net.svg").code, kExitDone);
  EXPECT_TRUE(has(folder.read("net.svg"), "<svg xmlns", "conv1", "tiny: 620 parameters"));
  EXPECT_OUTCOME(folder.run("show"), kExitUsage, "config is required");
  EXPECT_OUTCOME(folder.run("show none.yaml"), kExitUsage, "none.yaml");
  EXPECT_EQ(folder.run("show tiny.yaml --svg made/net.svg").code, kExitDone);
  EXPECT_EQ(folder.read("made/net.svg"), folder.read("net.svg"));
  EXPECT_OUTCOME(folder.run("show tiny.yaml --svg tiny.yaml/net.svg"), kExitUsage,
                 "--svg tiny.yaml/net.svg: cannot be written: Not a directory");
}

// Only a network that is no chain has a column for what each layer reads.
TEST(TrainerCommandLine, ShowNamesTheInputsOfBranches) {
  const TrainerFolder folder;
  EXPECT_EQ(folder.run("show tiny.yaml").out.find("inputs"), std::string::npos);
  folder.write("net.yaml",
               "backend: cpu\n"
               "data: {dataset: synthetic_images}\n"
               "layers:\n"
               "  - {name: one, type: flatten}\n"
               "  - {name: two, type: linear, out_features: 10}\n"
               "  - {name: three, type: linear, out_features: 10, inputs: one}\n"
               "  - {name: sum, type: add, inputs: [two, three]}\n"
               "  - {name: loss, type: softmax_cross_entropy}\n");
  EXPECT_TRUE(has(folder.run("show net.yaml").out, "inputs", "two, three"));
  const json network = json::parse(folder.run("show net.yaml --json").out);
  EXPECT_EQ(network["layers"][3]["inputs"], json({"two", "three"}));
}

TEST(TrainerCommandLine, ProfileTimesEveryPass) {
  const TrainerFolder folder;
  const Outcome outcome = folder.run("--config tiny.yaml --profile --json --quiet");
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  const json profile = json::parse(outcome.out.substr(outcome.out.find('{')));
  EXPECT_GT(profile["step_microseconds"], 0.0);
  double sum = 0.0, share = 0.0;
  for (const json& row : profile["rows"]) {
    EXPECT_TRUE(
        has(outcome.out, row["pass"].get<std::string>(), row["problem"].get<std::string>()));
    sum += row["microseconds"].get<double>();
    share += row["share"].get<double>();
  }
  EXPECT_EQ(profile["rows"].size(), 11u);  // gather, 4 forward, 5 backward, update
  EXPECT_NEAR(profile["sum_microseconds"], sum, 1e-6 * sum);
  EXPECT_NEAR(share, 1.0, 1e-6);
  // The files are the same, and the configuration gives the same run again.
  const std::string out = profile["out"];
  EXPECT_EQ(out.find("runs/tiny-"), 0u);
  json file = json::parse(folder.read(out + "/profile.json"));
  file["out"] = out;
  EXPECT_EQ(file, profile);
  EXPECT_EQ(folder.run("--dry-run --config " + out + "/config.yaml").code, kExitDone);
  const json trace = json::parse(folder.read(out + "/trace.json"));
  std::set<std::string> names;
  for (const json& event : trace["traceEvents"]) names.insert(event["name"]);
  for (const char* name : {"batch gather", "conv1 forward", "fc1 backward_data", "update"}) {
    EXPECT_EQ(names.count(name), 1u) << name;
  }
}

TEST(TrainerCommandLine, ProfileWritesWhereItIsTold) {
  const TrainerFolder folder;
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --profile --out mine"), kExitDone,
                 "mine/profile.json", "mine/trace.json", "ui.perfetto.dev");
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
  const std::string before = folder.read("mine/profile.json");
  // Nothing is overwritten, neither by a profile nor by a run; and a run not by a profile.
  for (const std::string what : {"--profile ", ""}) {
    EXPECT_OUTCOME(folder.run("--config tiny.yaml " + what + "--out mine"), kExitUsage,
                   "mine: holds a run already", "another folder");
  }
  EXPECT_EQ(folder.read("mine/profile.json"), before);
  EXPECT_EQ(folder.run("--config tiny.yaml --epochs 1 --out trained").code, kExitDone);
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --profile --out trained"), kExitUsage,
                 "trained: holds a run already");
  // What cannot be written is told; no table is printed then as if all were well.
  EXPECT_OUTCOME(folder.run("--config tiny.yaml --profile --out tiny.yaml/p"), kExitUsage,
                 "tiny.yaml/p", "cannot write to this output folder", "--out DIR");
  const Outcome full = folder.run("--config tiny.yaml --profile --out full",
                                  {.environment = {}, .most_file_bytes = 2000});
  EXPECT_OUTCOME(full, kExitFailure, "cannot write full/profile.json");
  EXPECT_EQ(full.out, "");
}

TEST(TrainerCommandLine, AnInterruptedProfileCanBeAskedForAgain) {
  const TrainerFolder folder;
  const std::string profile = "--config tiny.yaml --profile --out mine";
  EXPECT_OUTCOME(folder.run_until(profile, "stderr", SIGINT, "profiling"), kExitInterrupted,
                 "interrupted before the profile was done; nothing was written");
  EXPECT_TRUE(std::filesystem::is_empty(folder / "mine"));
  EXPECT_OUTCOME(folder.run(profile), kExitDone, "mine/profile.json");
}

TEST(TrainerCommandLine, NoColourWhereNoneIsWanted) {
  const TrainerFolder folder;
  const std::string train = "--config tiny.yaml --out ";
  constexpr char kEscape = '\033';
  const auto escapes = [&](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
    return outcome.err.find(kEscape) != std::string::npos;
  };
  const std::string term = "TERM=xterm-256color";
  EXPECT_TRUE(escapes(folder.run(train + "a", {.environment = {term}, .terminal = true})));
  EXPECT_TRUE(
      escapes(folder.run(train + "b", {.environment = {term, "NO_COLOR="}, .terminal = true})));
  EXPECT_FALSE(
      escapes(folder.run(train + "c", {.environment = {term, "NO_COLOR=1"}, .terminal = true})));
  EXPECT_FALSE(escapes(folder.run(train + "d", {.environment = {term}})));
}

}  // namespace
}  // namespace duet
