// What `trainer evaluate` and `trainer --evaluate` do.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "train/checkpoint/trained.h"
#include "train/setup.h"

namespace duet {

struct EvaluateOptions {
  std::string data;            // folder of the data set; empty: the usual places
  bool allow_changes = false;  // another network or other data than the checkpoint's too
  bool json = false;           // one JSON object instead of a line
};

/// Prints the loss and accuracy of a checkpoint's parameters on the validation data of `setup` to
/// standard output. Throws duet::Error.
void evaluate(const std::filesystem::path& checkpoint, Setup& setup,
              const EvaluateOptions& options);

/// The same of a checkpoint alone, `batch` images at a time (none: as it was trained).
void run_evaluate(TrainedOptions trained, std::optional<int64_t> batch,
                  const EvaluateOptions& options);

/// Loads the data set and logs what and where it is.
Dataset load_dataset(const Setup& setup, const std::string& folder);

}  // namespace duet
