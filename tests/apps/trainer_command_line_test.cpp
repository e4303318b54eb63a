// The trainer's command line: what it prints, and that wrong use is told in words that help.
#include <gtest/gtest.h>

#include <fstream>

#include "apps/trainer_process.h"
#include "core/error.h"
#include "data/dataset.h"
#include "device/device.h"
#include "layers/layers.h"
#include "optim/optimizer.h"

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
  for (const char* part : {"Examples:", "trainer --config configs/", "--resume last", "Exit codes",
                           "--dry-run", "trainer list impls"}) {
    EXPECT_NE(help.out.find(part), std::string::npos) << part;
  }
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
      {"--config tiny.yaml --epochs many", {"--epochs", "many"}},
      {"--config tiny.yaml --resume a --evaluate b", {"--resume", "excludes", "--evaluate"}},
      {"--config tiny.yaml --profile --evaluate b", {"--profile", "excludes", "--evaluate"}},
      {"list", {"what is required"}},
      {"list kernels", {"kernels", "layers", "impls", "datasets", "optimizers"}},
      {"--config none.yaml", {"none.yaml", "cannot open", "--config"}},
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
  EXPECT_EQ(layers.size(), layer_types().size());
  EXPECT_EQ(layers[0]["layer"], layer_types()[0]->name);
  EXPECT_EQ(rows("datasets").size(), dataset_types().size());
  EXPECT_EQ(rows("optimizers").size(), optimizer_types().size());
  size_t implementations = 0;
  for (const LayerType* type : layer_types()) implementations += type->implementations().size();
  EXPECT_EQ(impls.size(), implementations);
  for (const char* what : {"layers", "impls", "datasets", "optimizers"}) {
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
  EXPECT_NE(text.out.find("GPU"), std::string::npos);
  EXPECT_NE(text.out.find("data set fashion_mnist"), std::string::npos);
  const std::string gpu = gpu_available() ? gpu_name() : gpu_missing_reason();
  EXPECT_NE(text.out.find(gpu), std::string::npos) << text.out;
  const json report = json::parse(folder.run("doctor --json").out);
  EXPECT_EQ(report["gpu"].get<std::string>().empty(), !gpu_available());
  EXPECT_EQ(report["datasets"]["synthetic_images"], "generated");
  EXPECT_TRUE(report.contains("duet"));
  EXPECT_TRUE(report["versions"].is_object());
}

TEST(TrainerCommandLine, OutputThatCannotBeWrittenIsAFailure) {
  if (!std::ofstream("/dev/full")) GTEST_SKIP() << "no /dev/full";
  const int status = std::system(DUET_TRAINER " list layers >/dev/full 2>/dev/null");
  EXPECT_EQ(WEXITSTATUS(status), kExitFailure);
}

TEST(TrainerCommandLine, DryRunPrintsTheNetworkAndLeavesNothing) {
  const TrainerFolder folder;
  const Outcome table = folder.run("--config tiny.yaml --dry-run");
  EXPECT_EQ(table.code, kExitDone);
  EXPECT_EQ(table.err, "");
  for (const char* part : {"conv1", "16x4x6x6", "cpu_blas", "parameters: 620"}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part;
  }
  const json network = json::parse(folder.run("--config tiny.yaml --dry-run --json").out);
  EXPECT_EQ(network["parameters"], 620);
  EXPECT_EQ(network["layers"].size(), 5u);
  // Another request wins over the file, and the table says so.
  const Outcome reference = folder.run("--config tiny.yaml --dry-run --backend cpu_reference");
  EXPECT_EQ(reference.out.find("cpu_blas"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
}

TEST(TrainerCommandLine, ProfileTimesEveryPass) {
  const TrainerFolder folder;
  const Outcome outcome = folder.run("--config tiny.yaml --profile --json --quiet");
  EXPECT_EQ(outcome.code, kExitDone) << outcome.err;
  const json profile = json::parse(outcome.out.substr(outcome.out.find('{')));
  EXPECT_GT(profile["step_microseconds"], 0.0);
  EXPECT_FALSE(std::filesystem::exists(folder / "runs"));
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
