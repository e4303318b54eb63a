// Checkpoints: safetensors files with PyTorch's names and layouts ("conv1.weight" is KCRS), the
// optimizer's state ("optimizer.exp_avg.conv1.weight"), and configuration, step and totals as
// metadata. Where the weights are averaged, the average has the names and the weights themselves are
// the optimizer's ("optimizer.weights.conv1.weight"). The random numbers are a function of seed and step, so those two are the generator's
// whole state.
#pragma once

#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/config.h"
#include "data/set/dataset.h"
#include "optim/plateau.h"
#include "train/run/run_position.h"
#include "train/step/training.h"

namespace duet {

/// What is kept of a metric: a larger score is better. This is none.
inline constexpr double kNoScore = -std::numeric_limits<double>::infinity();

/// What a resumed run must share with the one that saved, and where that one stood.
struct CheckpointInfo {
  std::string config;   // resolved, as YAML
  std::string data;     // fingerprint() of the data set
  DatasetInfo dataset;  // what inputs and classes mean; without a name it is not saved
  std::string best_metric = "val_accuracy";
  double best_score = kNoScore;  // of that metric, over the epochs done
  std::string stopping_metric;   // of early stopping, with its best score and the epochs since then
  double stopping_score = kNoScore;
  int64_t stopping_epochs = 0;
  std::string plateau_metric;  // of a schedule that watches one
  Plateau plateau;
  std::string init_from;             // to_json(InitialWeights) if it began with some
  std::vector<std::string> changes;  // made when it was resumed: "at step 8: data.batch: 16 -> 8"
};

/// Replaces the file (write_file.h). Throws RunError.
void save_checkpoint(const std::filesystem::path& path, Training& training,
                     const CheckpointInfo& info);

/// What a checkpoint says of its network.
struct CheckpointDescription {
  ConfigNode config;                   // resolved
  std::optional<DatasetInfo> dataset;  // nothing in the first checkpoints of this format
};
/// Reads no tensors. Nothing if the file holds parameters without their network, as one saved by
/// PyTorch. Throws DataError if it is damaged.
std::optional<CheckpointDescription> describe_checkpoint(const std::filesystem::path& path);

struct Resumed {
  CheckpointInfo info;   // `now`, with the checkpoint's scores, and its changes and the new
  RunPosition position;  // of the run that saved
  std::vector<std::string> changes;  // the new ones, "key: before -> now"
};

/// Reads parameters, optimizer state, step and totals. Throws DataError if the file is damaged or
/// its parameters do not fit, and ConfigError, naming every difference, if it was trained with
/// another configuration or other data than `now` has; the training is unchanged then. Who computes
/// (backend, layout, ...) and the number of epochs may differ. With `allow_changes` everything may
/// that leaves the parameters' shapes: an optimizer without state in the file begins with none, a
/// training that averages its weights goes on from those that were trained, as one that no more
/// does, and with another batch or number of images the epoch that was begun starts over.
Resumed load_checkpoint(const std::filesystem::path& path, Training& training,
                        const CheckpointInfo& now, bool allow_changes = false);

/// The best score of `metric` that a checkpoint of this network knows of; kNoScore if there is none,
/// or it is damaged.
double best_score_of(const std::filesystem::path& path, Training& training,
                     const std::string& metric);

/// Reads the parameters only, from any safetensors file that has them (also one saved by PyTorch).
/// A checkpoint knows what it was trained as: throws ConfigError, naming every difference with
/// which its parameters give other results than in `now` (other layers or keys of theirs, other
/// data; not who computes, how many rows at a time, dropout and whatever else decides the training
/// alone). Without now.data the data are not compared. With `allow_changes` the differences are
/// returned. Throws DataError as load_checkpoint().
std::vector<std::string> load_parameters(const std::filesystem::path& path, Weights& weights,
                                         const CheckpointInfo& now, bool allow_changes = false);

}  // namespace duet
