// A learning rate that falls where a metric no longer improves.
//
// Source: PyTorch's torch.optim.lr_scheduler.ReduceLROnPlateau, its keys and defaults; `mode` is the metric's own
// (larger_is_better), and what the rate is multiplied by is kept instead of the rate, so that a warm-up may come first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace duet {

struct PlateauRule {
  std::string metric = "val_loss";
  double factor = 0.1;      // what the rate is multiplied by, below 1
  int64_t patience = 10;    // epochs without improvement that change nothing
  double threshold = 1e-4;  // what improves by less does not
  bool is_relative = true;  // threshold is a share of the best value
  int64_t cooldown = 0;     // epochs after a fall that do not count
  double least_rate = 0.0;  // PyTorch's min_lr
};

/// Where a training stands.
struct Plateau {
  std::optional<double> best;
  int64_t bad_epochs = 0, cooldown_left = 0;
  double scale = 1.0;  // of the schedule's rates: 1, or what the falls have left

  /// Takes the metric of another epoch. Returns whether the rate falls: not by 1e-8 or less, as in PyTorch.
  /// `learning_rate` is the optimizer's.
  bool watch(const PlateauRule& rule, double value, bool larger_is_better, double learning_rate);
};

}  // namespace duet
