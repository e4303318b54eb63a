#include "compare/measure/training_comparison.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compare/measure/running_graph.h"
#include "compare/results/records.h"
#include "compare/tables/format.h"
#include "core/interrupt.h"
#include "device/stopwatch.h"

namespace duet {
namespace {

constexpr size_t kFirstSteps = 10;

// How much of the section is done, by how long the steps of each arm took when they were timed.
class TrainingShare {
 public:
  TrainingShare(const std::vector<Arm>& arms, const Dataset& dataset, const StepTimes& times,
                const TrainingPlan& plan)
      : plan_(plan) {
    for (size_t i = 0; i < arms.size(); ++i) {
      const bool timed = times.has(i);
      step_.push_back(timed ? times.training[i].summary().median : 1e-3);
      evaluation_.push_back(timed ? times.inference[i].summary().median : 1e-3);
    }
    const NetSpec& spec = arms[0].spec;
    const auto seeds = static_cast<double>(plan.seeds);
    const auto batches = [&](int64_t images) {
      return static_cast<double>(images / spec.data.batch);
    };
    evaluations_ = batches(dataset.validation.count);
    const double steps = batches(dataset.train.count) * static_cast<double>(spec.train.epochs);
    for (size_t i = 0; i < arms.size(); ++i) {
      all_ += (2.0 * static_cast<double>(plan.steps) + seeds * steps) * step_[i] +
              seeds * evaluations_ * evaluation_[i];
    }
  }
  void add_step(size_t arm) { add(step_[arm]); }
  void add_evaluation(size_t arm) { add(evaluations_ * evaluation_[arm]); }
  double share() const { return all_ > 0 ? std::min(1.0, done_ / all_) : 0.0; }

 private:
  void add(double seconds) {
    done_ += seconds;
    plan_.step_done(share());
  }

  const TrainingPlan& plan_;
  std::vector<double> step_, evaluation_;  // seconds, by arm
  double evaluations_ = 0, all_ = 0, done_ = 0;
};

double first_steps_limit(Math math) {
  switch (math) {
    case Math::kFP32:
      return kFirstStepsLimit;
    case Math::kTF32:
      return kFirstStepsLimitTf32;
    case Math::kBF16:
      return kFirstStepsLimitBf16;
  }
  return 0;
}

// Losses of the first steps; NaN from the first that is not finite.
std::vector<double> losses(const std::vector<Arm>& arms, size_t index, const Dataset& dataset,
                           int64_t steps, TrainingShare* share) {
  const Arm& arm = arms[index];
  RunningArm running(arm, dataset);
  std::vector<double> losses;
  bool halted = false;
  for (int64_t i = 0; i < steps; ++i) {
    if (!halted) {
      const auto graph = running_graph(running, "a training step");
      run_interruptibly([&] { running.training().step(); });
      const StepState state = running.training().state();
      halted = state.halted != 0;
      if (!halted) losses.push_back(state.last_loss);
    }
    if (halted) losses.push_back(std::numeric_limits<double>::quiet_NaN());
    share->add_step(index);
  }
  return losses;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](double x, double y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (double value : values) total += value;
  return total;
}

void train_one_seed(const std::vector<Arm>& arms, size_t index, const Dataset& dataset,
                    uint64_t seed, TrainingShare* share, TrainedArm* result,
                    std::vector<double>* prepare) {
  const Arm& arm = arms[index];
  RunningArm running(arm, dataset, {}, seed);
  Training& training = running.training();
  const int64_t steps = training.steps_per_epoch() * arm.spec.train.epochs;
  const Elapsed watch;
  for (int64_t i = 0, count = 0; i < steps; i += count) {
    const auto graph = running_graph(running, "a training step");
    run_interruptibly([&] { count = training.step_some(steps - i); });
    for (int64_t k = 0; k < count; ++k) share->add_step(index);
  }
  running.context().synchronize();
  const double seconds = watch.seconds();
  if (training.state().halted) result->halted_seeds.push_back(seed);
  Metrics metrics;
  const auto graph = running_graph(running, "the evaluation of a batch");
  run_interruptibly([&] { metrics = training.evaluate(); });
  share->add_evaluation(index);
  if (!std::isnan(metrics.accuracy)) result->accuracy.push_back(metrics.accuracy);
  result->final_loss.push_back(metrics.loss);
  result->seconds.push_back(seconds);
  result->images_per_second = static_cast<double>(steps * running.batch()) *
                              static_cast<double>(result->seconds.size()) / sum(result->seconds);
  result->peak_memory_bytes = training.memory_bytes();
  prepare->push_back(running.prepare_seconds());
}

bool enough_seeds(const std::vector<double>& a, const std::vector<double>& b) {
  return std::min(a.size(), b.size()) >= kFewestSeeds;
}

// Whether kFarApart lies between all values of one and all of the other.
bool are_far_apart(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.empty() || b.empty()) return false;
  const auto [low_a, high_a] = std::minmax_element(a.begin(), a.end());
  const auto [low_b, high_b] = std::minmax_element(b.begin(), b.end());
  return *low_a - *high_b > kFarApart || *low_b - *high_a > kFarApart;
}

TrainingDifference difference_of(const TrainedArm& a, const TrainedArm& b, double limit) {
  TrainingDifference d = {.a = a.arm,
                          .b = b.arm,
                          .first_10_max = 0,
                          .first_10_share = 0,
                          .first_10_limit = limit,
                          .losses_agree = true};
  for (size_t i = 0; i < a.loss.size(); ++i) {
    // Both not finite: they part no further.
    const bool both = std::isnan(a.loss[i]) && std::isnan(b.loss[i]);
    d.loss.push_back(both ? 0.0 : std::fabs(a.loss[i] - b.loss[i]));
    if (i >= kFirstSteps) continue;
    const double share = d.loss[i] / std::max(std::fabs(a.loss[i]), 1e-3);
    d.first_10_max = std::max(d.first_10_max, d.loss[i]);
    if (!both) {
      d.first_10_share = std::max(d.first_10_share, share);
      d.losses_agree = *d.losses_agree && share <= limit;  // false for NaN
    }
  }
  if (a.halted() || b.halted()) {
    d.verdict = "diverged";
    return d;
  }
  if (a.accuracy.empty() && b.accuracy.empty()) {
    d.verdict = kNoAccuracy;
    return d;
  }
  const Difference accuracy = difference_of_means(a.accuracy, b.accuracy);
  d.accuracy_mean_difference = accuracy.mean;
  if (enough_seeds(a.accuracy, b.accuracy)) {
    d.low = accuracy.low;
    d.high = accuracy.high;
  }
  d.verdict = compare_accuracies(a.accuracy, b.accuracy);
  return d;
}

}  // namespace

std::string compare_accuracies(const std::vector<double>& a, const std::vector<double>& b) {
  if (are_far_apart(a, b)) return "different";
  if (!enough_seeds(a, b)) return "unclear";
  const Difference d = difference_of_means(a, b);
  if (d.low > kSameAccuracy || d.high < -kSameAccuracy) return "different";
  const bool narrow = d.low >= -kSurelyNotSame && d.high <= kSurelyNotSame;
  const bool near = std::fabs(d.mean) < kSameAccuracy || (d.low <= 0 && d.high >= 0);
  return narrow && near ? "same" : "unclear";
}

TrainingSection compare_training(const std::vector<Arm>& arms, const Dataset& dataset,
                                 const StepTimes& steps, const TrainingPlan& plan) {
  spdlog::info("training: {} losses of each arm, twice", plan.steps);
  TrainingShare share(arms, dataset, steps, plan);
  TrainingSection section = {.batch = arms[0].spec.data.batch,
                             .epochs = arms[0].spec.train.epochs,
                             .steps_compared = plan.steps,
                             .arms = std::vector<TrainedArm>(arms.size()),
                             .step_ratios = ratios_of(steps.pointers(steps.training))};
  for (auto member : {&TrainedArm::loss, &TrainedArm::repeat_loss}) {
    for (size_t i = 0; i < arms.size(); ++i) {
      section.arms[i].*member = losses(arms, i, dataset, plan.steps, &share);
    }
  }
  std::vector<std::vector<double>> prepare(arms.size());
  for (int64_t i = 0; i < plan.seeds; ++i) {
    const uint64_t seed = arms[0].spec.seed + static_cast<uint64_t>(i);
    section.seeds.push_back(seed);
    plan.progress(share.share(), "the training of seed " + std::to_string(seed));
    for (size_t j = 0; j < arms.size(); ++j) {
      const size_t arm = i % 2 ? arms.size() - 1 - j : j;  // no arm is always first
      train_one_seed(arms, arm, dataset, seed, &share, &section.arms[arm], &prepare[arm]);
    }
    std::string values;
    const bool labels = !section.arms[0].accuracy.empty();
    for (size_t j = 0; j < arms.size(); ++j) {
      const TrainedArm& arm = section.arms[j];
      values += (j ? ", " : "") + arms[j].name + " " +
                (labels ? format_accuracy(arm.accuracy.back())
                        : format_significant(arm.final_loss.back()));
    }
    spdlog::info("training: seed {} of {}: {} {}", i + 1, plan.seeds, labels ? "accuracy" : "loss",
                 values);
  }

  for (size_t i = 0; i < arms.size(); ++i) {
    TrainedArm& arm = section.arms[i];
    const auto halted = std::find_if(arm.loss.begin(), arm.loss.end(),
                                     [](double value) { return std::isnan(value); });
    arm.arm = {i};
    arm.repeats = same_bits(arm.loss, arm.repeat_loss);
    if (halted != arm.loss.end()) arm.halted_at = halted - arm.loss.begin() + 1;
    if (steps.has(i)) arm.step_us = timing_of(steps.training[i].summary());
    arm.step_faults = faults_of(steps.faults[i]);
    arm.prepare_s = summarise(prepare[i]).median;
    if (i == 0) continue;
    const double limit =
        std::max(first_steps_limit(arms[0].spec.math), first_steps_limit(arms[i].spec.math));
    section.differences.push_back(difference_of(section.arms[0], arm, limit));
  }
  return section;
}

}  // namespace duet
