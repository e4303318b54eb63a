#include "compare/measure/schedule.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "core/number_text.h"

namespace duet {
namespace {

// Of all trainings and evaluations together.
constexpr double kQuickTrainingSeconds = 12, kQuickEvaluationSeconds = 3;
// Of the steps of training and inference of all arms, once each: they are run some 30 times.
constexpr double kQuickStepSeconds = 0.2;
// The same of the configuration's batch, whose work is done some 150 times: the steps, the losses,
// and the examinations and times of layers.
constexpr double kQuickConfiguredStepSeconds = 0.3;

struct StepSums {
  double training = 0, inference = 0;  // seconds of all arms' steps
};

StepSums sums_of(const StepTimes& steps) {
  StepSums sums;
  for (size_t i = 0; i < steps.errors.size(); ++i) {
    if (!steps.has(i) || steps.training[i].seconds.empty()) continue;
    sums.training += steps.training[i].summary().median;
    sums.inference += steps.inference[i].summary().median;
  }
  return sums;
}

// Images in whole batches that `each` seconds a batch leave time for.
int64_t images_in(double seconds, double each, int64_t batch, int64_t fewest_batches,
                  int64_t available) {
  const double batches = each > 0 ? std::min(seconds / each, 1e9) : 1e9;
  const int64_t wanted = std::max(static_cast<int64_t>(batches), fewest_batches);
  return wanted >= available / batch ? available : wanted * batch;
}

Split first_of(const Split& split, int64_t count) {
  if (count >= split.count) return split;
  std::vector<int64_t> samples(static_cast<size_t>(count));
  std::iota(samples.begin(), samples.end(), 0);
  return selected(split, samples);
}

}  // namespace

TrainingSize quick_training(const StepTimes& steps, int64_t seeds, const Dataset& dataset) {
  const StepSums sums = sums_of(steps);
  const auto trainings = static_cast<double>(seeds);
  return {.train = images_in(kQuickTrainingSeconds, trainings * sums.training, steps.batch, 10,
                             dataset.train.count),
          .validation = images_in(kQuickEvaluationSeconds, trainings * sums.inference, steps.batch,
                                  1, dataset.validation.count)};
}

Dataset first_images(const Dataset& dataset, const TrainingSize& size) {
  Dataset first;
  static_cast<DatasetInfo&>(first) = dataset;
  first.source = dataset.source;
  first.train = first_of(dataset.train, size.train);
  first.validation = first_of(dataset.validation, size.validation);
  return first;
}

int64_t quick_batch(const StepTimes& steps) {
  const StepSums sums = sums_of(steps);
  const double seconds = sums.training + sums.inference;
  if (seconds <= kQuickConfiguredStepSeconds) return steps.batch;
  const double fits = static_cast<double>(steps.batch) * kQuickConfiguredStepSeconds / seconds;
  int64_t batch = kLeastQuickBatch;
  while (static_cast<double>(2 * batch) <= fits) batch *= 2;
  return std::min(batch, steps.batch);
}

std::vector<int64_t> quick_batches(const StepTimes& steps) {
  const StepSums sums = sums_of(steps);
  const double of_image =
      steps.batch > 0 ? (sums.training + sums.inference) / static_cast<double>(steps.batch) : 0;
  std::vector<int64_t> batches;
  for (const int64_t batch : {1, 64, 1024}) {
    if (batch == 1 || of_image * static_cast<double>(batch) <= kQuickStepSeconds) {
      batches.push_back(batch);
    } else if (batch == 64 && steps.batch > 1 && steps.batch < 64) {
      batches.push_back(steps.batch);
    }
  }
  return batches;
}

TimeLeft::TimeLeft(std::function<double()> clock) : clock_(std::move(clock)), started_(clock_()) {}

void TimeLeft::expect(const std::string& section, double seconds) {
  for (Section& known : sections_) {
    if (known.name == section) {
      known.seconds = seconds;
      return;
    }
  }
  sections_.push_back({section, seconds});
}

void TimeLeft::start(const std::string& section) {
  for (size_t i = 0; i < sections_.size(); ++i) {
    if (sections_[i].name == section) present_ = i;
  }
  started_ = clock_();
}

double TimeLeft::seconds(double share) const {
  double left = 0;
  for (size_t i = present_; i < sections_.size(); ++i) left += sections_[i].seconds;
  if (present_ >= sections_.size()) return left;
  const double passed = clock_() - started_, expected = sections_[present_].seconds;
  if (share <= 0) return left - expected + std::max(0.0, expected - passed);
  // What has passed tells the more about the rest the more of it there is: passed / share by
  // `share`, and what was expected by the rest.
  const double whole = passed + (1 - share) * expected;
  return left - expected + whole * (1 - share);
}

std::string TimeLeft::text(double share) {
  if (sections_.empty() || clock_() - told_ < 5) return "";
  told_ = clock_();
  const double left = seconds(share);
  if (left < 90) return printed("about %.0f s left", std::max(1.0, std::round(left)));
  return printed("about %.0f min left", std::round(left / 60));
}

double expected_steps_seconds(const StepTimes& known, int64_t batch, const TimingPlan& plan) {
  const StepSums sums = sums_of(known);
  const double scale =
      static_cast<double>(batch) / static_cast<double>(std::max<int64_t>(known.batch, 1));
  const double blocks = 2.0 * plan.block_seconds * static_cast<double>(known.errors.size());
  return 3.0 * (plan.rounds + 2) * std::max(blocks, scale * (sums.training + sums.inference));
}

double expected_training_seconds(const StepTimes& steps, int64_t losses, int64_t seeds,
                                 const TrainingSize& size, int64_t epochs) {
  const StepSums sums = sums_of(steps);
  const auto batches = [&](int64_t images) {
    return static_cast<double>(images) / static_cast<double>(std::max<int64_t>(steps.batch, 1));
  };
  return 2 * static_cast<double>(losses) * sums.training +
         static_cast<double>(seeds) *
             (static_cast<double>(epochs) * batches(size.train) * sums.training +
              batches(size.validation) * sums.inference);
}

double expected_layers_seconds(const StepTimes& steps, size_t rows, const TimingPlan& plan,
                               bool cold) {
  const double timing = 2.0 * (plan.rounds + 2) * static_cast<double>(steps.errors.size()) *
                        plan.block_seconds * (cold ? 2 : 1);
  // An examination runs a pass dozens of times, and the reference in double beside it.
  return static_cast<double>(rows) * timing + 100 * sums_of(steps).training;
}

}  // namespace duet
