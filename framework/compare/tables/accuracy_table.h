// What finished trainings came to, by network and by what ran it: a table over several seeds.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "compare/results/run_record.h"

namespace duet {

inline constexpr const char* kAccuracySchema = "duet.accuracy/1";

/// One training.
struct TrainedRun {
  std::string name, dataset, backend, math, device, duet;
  std::string config;  // a hash of the configuration but for its seed and the data's place
  uint64_t seed = 0;
  Count epochs;
  double accuracy = kUnknown, best_accuracy = kUnknown;  // validation: last epoch, best of all
  double val_loss = kUnknown;                            // of the last epoch, as `metrics` are
  std::vector<LoggedMetric> metrics;
  double seconds = kUnknown;            // training and evaluations
  double images_per_second = kUnknown;  // in training
  std::optional<RunGoal> goal;
  void fields(auto& f) {
    f.maybe("val_loss", val_loss).maybe("metrics", metrics);
    f("name", name)("dataset", dataset)("backend", backend)("math", math)("device", device);
    f("duet", duet).maybe("config", config)("seed", seed)("epochs", epochs)("accuracy", accuracy);
    f("best_accuracy", best_accuracy)("seconds", seconds);
    f("images_per_second", images_per_second).maybe("goal", goal);
  }
};

struct AccuracyTable {
  std::string schema;
  std::vector<TrainedRun> runs;
  void fields(auto& f) { f("schema", schema)("runs", runs); }
};

/// Reads the folders of finished runs, and tables that were written before (.json). Of two runs
/// alike but in what they came to the later one counts, and a warning says so. Throws DataError: what read_run() throws, a
/// run that has not come to its end, or a table that is damaged.
AccuracyTable read_accuracies(const std::vector<std::string>& sources);

/// Rows of one configuration, backend, math and device, in the order of their first runs.
std::string accuracy_text(const AccuracyTable& table);      // for a console
std::string accuracy_markdown(const AccuracyTable& table);  // a whole page

struct AccuracyOptions {
  std::vector<std::string> sources;
  std::string write;  // a Markdown file; the same as .json beside it
};

/// Prints the table, and writes the two files if asked to. Throws ConfigError, DataError or
/// RunError.
void run_accuracy(const AccuracyOptions& options);

}  // namespace duet
