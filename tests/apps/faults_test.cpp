// An error or the end of the process at every call with which a run changes files: what is left is
// whole, and the run that goes on from it comes to the same as one that nothing disturbed.
// DUET_ALL_FAULTS=1 tries every kind of fault at every call; else each call has one of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "support/trainer_process.h"
#include "train/checkpoint/safetensors.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kNetwork = R"(name: small
backend: cpu
data: {dataset: synthetic_images, batch: 8, size: 4, classes: 3, train_count: 32, validation_count: 24}
train: {epochs: 3, log_every: 3}
optimizer: {type: adam, learning_rate: 0.02}
layers:
  - {name: flatten, type: flatten}
  - {name: fc1, type: linear, out_features: 3}
  - {name: loss, type: softmax_cross_entropy}
)";

const std::vector<std::string> kKinds = {"ENOSPC", "EIO",  "full", "short",
                                         "killed", "done", "half"};

struct Remains {
  std::string last, best;  // checkpoints
  std::vector<json> metrics;

  bool operator==(const Remains&) const = default;
};

// Of which only times may differ between two runs.
std::vector<json> metrics_of(const std::string& text) {
  std::vector<json> metrics;
  for (const std::string& line : lines_of(text)) {
    json& object = metrics.emplace_back(json::parse(line));
    for (const char* time : {"seconds", "evaluation_seconds", "images_per_second"}) {
      object.erase(time);
    }
  }
  return metrics;
}

class Faults : public testing::Test {
 protected:
  Faults() {
    folder_.write("net.yaml", kNetwork);
    calls_ = calls_of("");
    undisturbed_ = what_is_left();
    fs::remove_all(folder_ / "run");
  }

  Outcome train(const std::string& arguments, TrainerFolder::Options options = {}) {
    options.environment.push_back("OMP_NUM_THREADS=1");
    return folder_.run("--config net.yaml --quiet --out run " + arguments, options);
  }

  Outcome train_with_fault(const std::string& arguments, const std::string& kind, size_t at) {
    return train(arguments,
                 {.environment = {"DUET_FAULT_PATH=run", "DUET_FAULT_AT=" + std::to_string(at),
                                  "DUET_FAULT_KIND=" + kind, "DUET_FAULT_LOG=calls"},
                  .preload = DUET_PRELOAD_FAULTS});
  }

  // The calls that change the folder in a run that nothing disturbs.
  std::vector<std::string> calls_of(const std::string& arguments) {
    fs::remove(folder_ / "calls");
    EXPECT_OUTCOME(train_with_fault(arguments, "", 0), kExitDone);
    std::vector<std::string> calls = lines_of(folder_.read("calls"));
    EXPECT_GT(calls.size(), 20u) << "is the library preloaded?";
    return calls;
  }

  // Leaves the folder of a run that was killed when it had saved this epoch.
  void train_until(int epoch) {
    for (size_t at = 1; at <= calls_.size(); ++at) {
      const bool saved = calls_[at - 1].find("rename run/checkpoints/last") != std::string::npos;
      if (!saved || --epoch > 0) continue;
      EXPECT_EQ(train_with_fault("", "done", at).code, 128 + SIGKILL);
      return;
    }
    ADD_FAILURE() << "there are fewer epochs";
  }

  std::string read(const std::string& file) const { return folder_.read("run/" + file); }

  Remains what_is_left() const {
    return {read("checkpoints/last.safetensors"), read("checkpoints/best.safetensors"),
            metrics_of(read("metrics.jsonl"))};
  }

  // Every file that is there can be read, and the best checkpoint is as good as the last one says.
  void expect_whole() const {
    double last = -1.0, best = -1.0;
    const auto accuracy = [&](const char* file, double* value) {
      const fs::path path = folder_ / "run/checkpoints" / file;
      if (!fs::exists(path)) return;
      *value = std::strtod(safetensors::read(path).metadata().at("best_accuracy").c_str(), nullptr);
    };
    EXPECT_NO_THROW(accuracy("last.safetensors", &last));
    EXPECT_NO_THROW(accuracy("best.safetensors", &best));
    EXPECT_GE(best, last);
    EXPECT_TRUE(!fs::exists(folder_ / "run/run.json") || json::accept(read("run.json")));
    EXPECT_TRUE(!fs::exists(folder_ / "run/config.yaml") || !read("config.yaml").empty());
  }

  // Goes on with what a fault left, as a person would.
  void expect_same_end() {
    const bool saved = fs::exists(folder_ / "run/checkpoints/last.safetensors") ||
                       fs::exists(folder_ / "run/checkpoints/best.safetensors");
    if (!saved) fs::remove_all(folder_ / "run");
    EXPECT_OUTCOME(train(saved ? "--resume last" : ""), kExitDone);
    const Remains end = what_is_left();
    EXPECT_TRUE(end.last == undisturbed_.last);
    EXPECT_TRUE(end.best == undisturbed_.best);
    EXPECT_EQ(end.metrics, undisturbed_.metrics);
    for (const auto& file : fs::recursive_directory_iterator(folder_ / "run")) {
      const std::string name = file.path().filename().string();
      EXPECT_TRUE(name.find(".tmp") == std::string::npos && name != ".duet-lock") << name;
    }
  }

  // A fault at each call of `trainer ... arguments`, always from the same state of the folder.
  void try_all(const std::string& arguments) {
    const fs::path run = folder_ / "run", before = folder_ / "before";
    const bool anew = !fs::exists(run);
    if (!anew) fs::copy(run, before, fs::copy_options::recursive);
    const std::vector<std::string> calls = calls_of(arguments);
    const bool all = std::getenv("DUET_ALL_FAULTS");
    size_t tried = 0;
    for (size_t at = 1; at <= calls.size(); ++at) {
      for (size_t kind = 0; kind < kKinds.size(); ++kind) {
        if (!all && kind != at % kKinds.size()) continue;
        SCOPED_TRACE(kKinds[kind] + " at call " + calls[at - 1]);
        fs::remove_all(run);
        if (!anew) fs::copy(before, run, fs::copy_options::recursive);
        const Outcome outcome = train_with_fault(arguments, kKinds[kind], at);
        if (kind >= 4) {
          EXPECT_EQ(outcome.code, 128 + SIGKILL);
        } else if (outcome.code != kExitDone) {  // some faults do no harm
          EXPECT_TRUE(outcome.code == kExitFailure || outcome.code == kExitUsage) << outcome.code;
          EXPECT_TRUE(has(outcome.err, "error: "));
        }
        expect_whole();
        expect_same_end();
        ++tried;
        if (HasFailure()) return;
      }
    }
    RecordProperty("faults", static_cast<int>(tried));
    if (all) std::printf("%zu faults at %zu calls\n", tried, calls.size());
    fs::remove_all(before);
  }

  const TrainerFolder folder_;
  std::vector<std::string> calls_;
  Remains undisturbed_;
};

TEST_F(Faults, OfANewRun) { try_all(""); }

TEST_F(Faults, OfARunThatGoesOn) {
  train_until(1);
  try_all("--resume last");
}

TEST_F(Faults, OfARunThatGoesOnAmongRemains) {
  train_until(2);
  // Lines that the checkpoint does not know, half a line, and files that were being written.
  folder_.write("run/metrics.jsonl",
                read("metrics.jsonl") + "{\"event\":\"step\",\"epoch\":3,\"step\":9}\n{\"ev");
  folder_.write("run/checkpoints/best.safetensors.duet.tmp4194999", "half");
  folder_.write("run/run.json.duet.tmp4194999", "{");
  try_all("--resume last");
}

TEST_F(Faults, OfARunThatGoesBack) {
  train_until(1);
  const std::string first = read("checkpoints/last.safetensors");
  fs::remove_all(folder_ / "run");
  train_until(2);
  folder_.write("run/checkpoints/first.safetensors", first);
  try_all("--resume run/checkpoints/first.safetensors");
}

}  // namespace
}  // namespace duet
