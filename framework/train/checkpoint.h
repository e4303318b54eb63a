// Checkpoints: safetensors files with PyTorch's names and layouts ("conv1.weight" is KCRS), the
// optimizer's state ("optimizer.exp_avg.conv1.weight"), and step, seed and totals as metadata. The
// random numbers are a function of seed and step, so those two are the generator's whole state.
#pragma once

#include <filesystem>

#include "train/training.h"

namespace duet {

/// What a resumed run must share with the one that saved, and where that one stood.
struct CheckpointInfo {
  std::string network;
  std::string dataset;
  std::string optimizer;
  uint64_t seed = 0;
  int64_t batch = 0;
  int64_t images = 0;           // of the training data
  double best_accuracy = -1.0;  // of the validation data, over the epochs done
};

/// Written to a temporary file and renamed: the old file or the new one is there, never half of
/// one. Throws RunError; the old file is untouched then.
void save_checkpoint(const std::filesystem::path& path, Training& training,
                     const CheckpointInfo& info);

/// Reads parameters, optimizer state, step and totals. Throws DataError if the file is damaged or
/// of another network, ConfigError if it was trained with another optimizer, seed, batch or data
/// set than `expected` names; the training is unchanged then. Returns the info with its
/// best_accuracy.
CheckpointInfo load_checkpoint(const std::filesystem::path& path, Training& training,
                               const CheckpointInfo& expected);

/// Reads the parameters only, from any safetensors file that has them (also one saved by PyTorch).
void load_parameters(const std::filesystem::path& path, Training& training);

}  // namespace duet
