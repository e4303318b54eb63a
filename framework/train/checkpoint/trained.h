// A trained network, made ready from its checkpoint, and its file where the checkpoint does not hold
// it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint/checkpoint.h"
#include "train/setup.h"

namespace duet {

struct TrainedOptions {
  std::string checkpoint;                // a file, or the folder of a run
  std::string config;                    // the network, as YAML; empty: that in the checkpoint
  std::optional<std::string> backend;    // family or implementation id
  std::vector<std::string> assignments;  // "a.b=value"
};

struct Trained {
  std::filesystem::path checkpoint;            // the file
  Setup setup;                                 // of TrainedOptions::config, or else of that in it
  std::optional<CheckpointDescription> saved;  // what it says of its network
};

/// Reads the checkpoint's metadata; of a run's folder that of the best epoch, or of the last (and
/// logs which). Throws ConfigError, DataError or UnsupportedError: there is no such file, it is
/// damaged or does not hold its network and no file names it, or what runs the network is not on this machine.
Trained open_trained(const TrainedOptions& options);

/// `info`, which the data set's type knows, with the normalisation and the names of columns and
/// classes of the checkpoint where it has them and is of the same data set. Warns of another
/// normalisation.
DatasetInfo as_trained(DatasetInfo info, const std::optional<CheckpointDescription>& saved);

/// as_trained() of the network's data set. Throws ConfigError if neither says how images are
/// normalised.
DatasetInfo normalised_as_trained(const Trained& trained);

/// The weights of setup.layers, from a checkpoint of the layers that were trained (load_parameters()).
/// Warns of what `allow_changes` allows.
Weights load_weights(const std::filesystem::path& checkpoint, const Setup& setup, Device device,
                     const CheckpointInfo& now, bool allow_changes = false);

/// The name of a class, or of an output that the data set has no class for its number.
std::string class_name(const DatasetInfo& info, size_t number);

/// Throws UnsupportedError if the network is for a GPU and there is none.
void check_device(const NetSpec& spec);

}  // namespace duet
