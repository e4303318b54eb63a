// Does the network learn the same? Losses step by step, accuracy over seeds, speed and memory.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "compare/measure/step_times.h"
#include "compare/results/results.h"

namespace duet {

struct TrainingPlan {
  int64_t steps = 200;  // whose losses are compared
  int64_t seeds = 5;    // trainings of every arm, from the configuration's seed on
  /// Hears the share that is done, and what begins.
  std::function<void(double, const std::string&)> progress = [](double, const std::string&) {};
  /// Hears the share that is done, after every step: must take no time worth mentioning.
  std::function<void(double)> step_done = [](double) {};
};

/// Mean accuracies that differ by less than this are the same; 0.002 is 20 images of 10,000.
inline constexpr double kSameAccuracy = 0.002;
/// An interval that reaches farther than this from 0 is too wide for "same".
inline constexpr double kSurelyNotSame = 0.01;
/// Accuracies of which all of one arm's are farther than this from all of the other's differ, at
/// any number of seeds.
inline constexpr double kFarApart = 0.05;
/// The seeds of which an interval says anything.
inline constexpr size_t kFewestSeeds = 3;
/// The most that a loss may differ in the first ten steps, as a share of it: where all compute in
/// fp32, and where one does not; 8 times that where one stores bf16, whose rounding is 8 times
/// tf32's. All start from the same weights, so that only rounding sets them apart; later they part
/// by themselves. custom and cudnn differ by 3e-6 in fashion_mnist_cnn.
inline constexpr double kFirstStepsLimit = 1e-3;
inline constexpr double kFirstStepsLimitTf32 = 1e-2;
inline constexpr double kFirstStepsLimitBf16 = 8e-2;

/// The "training" of the results:
/// - loss: of every step, read back after each. `repeat_loss`: the arm once more, which must be the
///   same bits (`repeats`). A loss that is not finite is
///   NaN, and so are those after it (halted_at: the step, from 1; halted_seeds: the trainings to
///   which that happened).
/// - accuracy, final_loss: on the validation data after the configuration's epochs, a value a seed;
///   seconds: of the training steps alone; images_per_second: over all of them.
/// - step_us, step_ratios: of `steps`, which is of the configuration's batch; absent, with
///   step_faults, where something is wrong there.
/// - peak_memory_bytes: Training::memory_bytes(). All of it is taken before the first step, so it
///   is the peak; what CUDA and the libraries take for themselves is not in it.
/// - prepare_s: making the network: searches, warm-up, graph capture.
/// - differences: of the first arm to each other one. The interval is that of the difference of
///   mean accuracies, absent with fewer than kFewestSeeds. verdict: "different" if the whole interval
///   is beyond kSameAccuracy on one side, or kFarApart lies between the two arms' values; "same" if
///   it lies within kSurelyNotSame of 0, and holds 0 or the means differ by less than
///   kSameAccuracy; else, and without an interval, "unclear". kNoAccuracy where there is none. "diverged", and no difference, where
///   a training halted. first_10_share is the largest difference of the first ten losses as a share
///   of the loss, and losses_agree whether that is within first_10_limit, the limit above.
/// REQUIRES: no arm has an error in `steps`.
TrainingSection compare_training(const std::vector<Arm>& arms, const Dataset& dataset,
                                 const StepTimes& steps, const TrainingPlan& plan);

/// The verdict on two arms' accuracies, a value a seed.
std::string compare_accuracies(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace duet
