// How long a comparison takes, and what --quick leaves out of it to take about a minute.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compare/measure/step_times.h"

namespace duet {

/// What the trainings of all arms take and learn from.
struct TrainingSize {
  int64_t train = 0, validation = 0;  // images
};
/// With --quick: the images that `seeds` trainings of every arm, an epoch each, get through in
/// about a quarter of a minute; whole batches, and at least ten of training and one of validation
/// (or all there are). REQUIRES: every arm has times in `steps`.
TrainingSize quick_training(const StepTimes& steps, int64_t seeds, const Dataset& dataset);
/// The first images of a data set.
Dataset first_images(const Dataset& dataset, const TrainingSize& size);

/// With --quick: the batch of the sections that take the configuration's, of which `steps` tell:
/// all of it if the steps of all arms together are short enough for a minute, else the largest
/// power of two for which they are; at least kLeastQuickBatch, or `steps.batch` if that is less.
inline constexpr int64_t kLeastQuickBatch = 2;
int64_t quick_batch(const StepTimes& steps);

/// With --quick: of 1, 64 and 1024 those whose steps, as far as `steps` tell, are short enough to
/// be timed in seconds; 1 always, and the batch of `steps`, which is timed already, in the place of
/// a 64 that is not. `steps` may be of no arm.
std::vector<int64_t> quick_batches(const StepTimes& steps);

/// Tells from what was expected and what has passed how long the rest takes.
class TimeLeft {
 public:
  explicit TimeLeft(std::function<double()> clock);

  /// The sections, in their order, before the first starts. One that is named again is expected to
  /// take this time instead.
  void expect(const std::string& section, double seconds);
  void start(const std::string& section);
  /// Seconds until the last section ends, with `share` of the present one done.
  double seconds(double share) const;
  /// "about 35 s left", or nothing if that was told less than five seconds ago, or if no section is
  /// expected.
  std::string text(double share);

 private:
  struct Section {
    std::string name;
    double seconds;
  };
  const std::function<double()> clock_;
  std::vector<Section> sections_;
  size_t present_ = 0;
  double started_ = 0.0, told_ = -1e9;
};

/// What it takes to time the steps of `batch`, estimated from those of another.
double expected_steps_seconds(const StepTimes& known, int64_t batch, const TimingPlan& plan);
/// What training every arm takes: losses, of which each arm computes two series, and seeds.
double expected_training_seconds(const StepTimes& steps, int64_t losses, int64_t seeds,
                                 const TrainingSize& size, int64_t epochs);
/// What measuring `rows` passes takes.
double expected_layers_seconds(const StepTimes& steps, size_t rows, const TimingPlan& plan,
                               bool cold);

}  // namespace duet
