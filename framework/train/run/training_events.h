// What a training tells TensorBoard.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>

#include "train/run/event_file.h"
#include "train/step/training.h"

namespace duet {

/// Scalars have the steps done as their step, whatever they are means of.
class TrainingEvents {
 public:
  /// Of a training that has done `steps`; what the folder says of later ones is void. As EventFile: throws RunError, as
  /// all functions do.
  TrainingEvents(const std::filesystem::path& folder, uint64_t steps) : file_(folder) {
    file_.start(static_cast<int64_t>(steps) + 1);
  }

  /// "loss/step" and "learning_rate" of the last step done.
  void step(const StepState& state);
  /// `metrics` is the epoch's line of metrics.jsonl. Also a histogram of each parameter, as it is
  /// evaluated ("weights/conv1.weight"), and the filters of the first convolution as a picture
  /// ("filters/conv1.weight"). Waits for the queued steps.
  void epoch(const nlohmann::json& metrics, Training& training);

 private:
  EventFile file_;
};

}  // namespace duet
