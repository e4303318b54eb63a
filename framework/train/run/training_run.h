// A training as `trainer` runs it: epochs, what they leave in the run's folder, signals.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/running.h"
#include "data/set/dataset.h"
#include "device/stopwatch.h"
#include "train/checkpoint/checkpoint.h"
#include "train/run/goal.h"
#include "train/run/run_folder.h"
#include "train/run/training_events.h"
#include "train/setup.h"
#include "train/step/training.h"
#include "train/trainer.h"

namespace duet {

/// "cpu", or the GPU's name
std::string device_name(const NetSpec& spec);

class TrainingRun {
 public:
  /// `training` is `setup`'s, over `data`. All must outlive this.
  TrainingRun(const TrainerOptions& options, const Setup& setup, const Dataset& data,
              Training& training);

  /// Trains to the end, from the start or, if `checkpoint` is not empty, from there; in `folder`,
  /// or if there is none in a new one. Returns kExitDone, or kExitInterrupted after a signal.
  /// Throws duet::Error, with what is kept.
  int run(std::optional<RunFolder> folder, const std::filesystem::path& checkpoint);

 private:
  void resume(const std::filesystem::path& checkpoint);
  void start_folder(const std::filesystem::path& checkpoint);
  void finish_folder();
  void write_kernels() const;
  /// What train.init_from gave, and that it is written down.
  void tell_initial_weights();
  void write_run_json();
  int train(uint64_t step, uint64_t per_epoch, uint64_t end);
  uint64_t run_epoch(uint64_t step, uint64_t per_epoch);
  /// What a replay of the network's graph runs as (core/running.h): no layer can tell that it does.
  void name_replay(std::optional<Running>& running, std::string_view what, uint64_t number) const;
  void finish_epoch(int64_t epoch);
  /// Early stopping: what the epoch of summary_ adds, and whether training has ended by it.
  void watch_for_the_end();
  /// A schedule that watches a metric: lowers the rate of the epochs to come where that is due.
  void watch_for_a_plateau();
  bool has_stopped() const;
  /// The end of an error's message.
  std::string what_is_kept() const;
  /// Throws RunError.
  void check_finite(const Metrics& validation, int64_t epoch) const;
  /// To the line of the epoch.
  void add_values(const Metrics::Values& values);
  /// REQUIRES: it is one of the network's.
  const MetricInfo& metric(const std::string& name) const;
  void save(const std::filesystem::path& path);
  StepState checked_state();
  void print_summary(bool interrupted);

  const TrainerOptions& options_;
  const Setup& setup_;
  const NetSpec& spec_;
  const Dataset& data_;
  Training& training_;
  std::optional<RunFolder> folder_;
  std::optional<TrainingEvents> events_;  // with --tensorboard
  CheckpointInfo info_;
  RunPosition position_;  // where it was resumed
  std::string saved_;     // the last good checkpoint
  nlohmann::json summary_ = nlohmann::json::object();
  Elapsed watch_;                          // from the first step
  bool finished_ = false;                  // the training has come to its end
  const std::vector<MetricInfo> metrics_;  // of the network
  Goal goal_;
  double startup_seconds_ = 0.0;
  double epoch_seconds_ = 0.0, train_seconds_ = 0.0;
  bool epoch_is_whole_ = true;  // false: another process began it
  int64_t epoch_images_ = 0, train_images_ = 0;
};

/// Optimizer and schedule with their keys, as members of an object. Without a schedule nothing is
/// said of it.
nlohmann::json training_json(const Setup& setup);

}  // namespace duet
