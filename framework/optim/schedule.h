// Schedules: how the learning rate changes from step to step. A new one is a kind of ScheduleRule
// (schedule_rule.h) and a line in schedule.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/config.h"
#include "optim/plateau.h"
#include "optim/schedule_rule.h"

namespace duet {

/// A length of training, in epochs or in steps.
struct TrainingSpan {
  double epochs = 0.0;
  int64_t steps = 0;  // beside the epochs

  int64_t in_steps(int64_t steps_per_epoch) const;
};

struct Schedule {
  ScheduleRule keys;  // those of PyTorch; neither rates nor lengths
  bool per_epoch = false;
  TrainingSpan warmup;
  bool ends = false;   // cosine, one_cycle, linear
  TrainingSpan total;  // if it ends: warm-up included
  /// Of the metrics after each epoch, which scale what rule() says.
  std::optional<PlateauRule> plateau;

  /// Behind its end a cosine goes on, and the others stay at their last rate.
  ScheduleRule rule(double learning_rate, int64_t steps_per_epoch) const;
  /// What of it does not go with a training of so many steps, or "": it ends before or after that, its
  /// warm-up outlasts it, no step comes, the rate is always 0, or
  /// no plateau can be seen in it.
  std::string misfit(double learning_rate, int64_t steps_per_epoch, int64_t steps) const;
};

struct ScheduleType {
  std::string_view name;
  std::string_view summary;
  void (*read)(ConfigReader& reader, Schedule* schedule);  // its own keys
};

const std::vector<const ScheduleType*>& schedule_types();
/// Reads the map `schedule` ({type: cosine, warmup_epochs: 0.2, ...}), finish() included. One that
/// ends takes `epochs` if it does not say how long it is. Mistakes go to the reader; the result is
/// then some schedule.
Schedule read_schedule(ConfigReader& reader, int64_t epochs);

}  // namespace duet
