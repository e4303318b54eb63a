// Reads the files of a training's run folder (train/run/run_folder.h).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compare/results/results.h"
#include "core/output_files.h"

namespace duet {

/// A line of metrics.jsonl: "event": "step".
struct LoggedStep {
  Count epoch, step;
  double loss = kUnknown, learning_rate = kUnknown;
  void fields(auto& f) {
    f("epoch", epoch)("step", step)("loss", loss)("learning_rate", learning_rate);
  }
};

/// One metric, or one of several losses, of an epoch in metrics.jsonl: its value on the training data
/// and on the validation data.
struct LoggedMetric {
  std::string name;
  double train = kUnknown, validation = kUnknown;
  void fields(auto& f) { f("name", name)("train", train)("validation", validation); }
};

/// "event": "epoch"
struct LoggedEpoch {
  Count epoch;
  double train_loss = kUnknown, train_accuracy = kUnknown, val_loss = kUnknown;
  double val_accuracy = kUnknown, val_top5 = kUnknown, learning_rate = kUnknown;
  double images_per_second = kUnknown, seconds = kUnknown, evaluation_seconds = kUnknown;
  std::vector<LoggedMetric> metrics;
  void fields(auto& f) {
    f.maybe("metrics", metrics);
    f("epoch", epoch)("train_loss", train_loss)("train_accuracy", train_accuracy);
    f("val_loss", val_loss)("val_accuracy", val_accuracy).maybe("val_top5", val_top5);
    f("learning_rate", learning_rate)("images_per_second", images_per_second);
    f("seconds", seconds)("evaluation_seconds", evaluation_seconds);
  }
};

struct EvaluatedClass {
  std::string name;
  Count images, predicted;
  double precision = kUnknown, recall = kUnknown;
  void fields(auto& f) {
    f("name", name)("images", images)("predicted", predicted);
    f("precision", precision)("recall", recall);
  }
};

/// evaluation.json: the validation data by the weights of the best epoch.
struct BestEvaluation {
  Count epoch, images;
  double val_loss = kUnknown, val_accuracy = kUnknown;
  std::vector<EvaluatedClass> classes;
  std::vector<std::vector<double>> confusion;  // empty, or a row and a column for each class
  void fields(auto& f) {
    f("epoch", epoch)("images", images)("val_loss", val_loss)("val_accuracy", val_accuracy);
    f("classes", classes).maybe("confusion", confusion);
  }
};

/// train.goal: the first epoch whose validation accuracy, or other metric, was that, and the time
/// until its end, evaluations included.
struct RunGoal {
  double val_accuracy = kUnknown;
  std::string metric;  // another one
  double value = kUnknown;
  Count epoch;
  double seconds = kUnknown;
  void fields(auto& f) {
    f.maybe("val_accuracy", val_accuracy).maybe("metric", metric).maybe("value", value);
    f("epoch", epoch)("seconds", seconds);
  }
  /// "91.00%", "val_psnr 30"
  std::string text() const;
};

/// The checkpoint that a training began with.
struct RunBeginning {
  std::string file;
  void fields(auto& f) { f("file", file); }
};

/// Samples that on_error: skip left out, and the first of them by name.
struct LeftOutData {
  Count count;
  std::vector<std::string> named;
  void fields(auto& f) { f("count", count)("named", named); }
};

struct TrainedData {
  std::string name, source;
  std::optional<LeftOutData> left_out;
  void fields(auto& f) { f("name", name)("source", source).maybe("left_out", left_out); }
};

/// A run; of run.json what a reader of its results asks for.
struct RunRecord {
  std::string name, duet, device, backend, math;
  uint64_t seed = 0;
  Count wanted_epochs;
  bool finished = false;
  std::optional<RunGoal> goal;
  std::optional<RunBeginning> init_from;
  TrainedData dataset;
  Count parameters, memory_bytes;
  double startup_seconds = kUnknown;
  std::vector<std::string> changes;
  std::vector<NetworkLayer> network;
  std::vector<std::pair<std::string, std::string>> versions;  // of libraries
  std::string config;                                         // config.yaml
  std::vector<LoggedStep> steps;
  std::vector<LoggedEpoch> epochs;  // at least one, or one step
  bool cut_short = false;           // the last line of metrics.jsonl has no end
  std::optional<BestEvaluation> evaluation;
  std::string filters, filters_png;  // of the best epoch: "conv1.weight" and its picture
  void fields(auto& f) {
    f("name", name)("duet", duet)("device", device)("backend", backend).maybe("math", math);
    f("seed", seed).maybe("epochs", wanted_epochs)("finished", finished).maybe("goal", goal);
    f.maybe("init_from", init_from);
    f("dataset", dataset)("parameters", parameters)("memory_bytes", memory_bytes);
    f("startup_seconds", startup_seconds)("layers", network).maybe("changes", changes);
  }
};

/// What the epochs of a run took together; of what is not known nothing.
struct RunTimes {
  double training = 0, evaluation = 0;  // seconds
  double images = 0;                    // trained on
};
RunTimes times_of(const RunRecord& run);

/// Throws DataError, with the file, the line and what to do: no such folder, no run in it, nothing
/// logged yet, or a file that is damaged. A checkpoint that is damaged is warned of. Needs neither a GPU nor the data set.
RunRecord read_run(const std::filesystem::path& folder);

/// The files of a run, which no output may take the place of (check_outputs()).
std::vector<NamedFile> inputs_of_run(const std::string& folder);

}  // namespace duet
