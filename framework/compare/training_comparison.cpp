#include "compare/training_comparison.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "compare/results.h"
#include "core/interrupt.h"
#include "device/stopwatch.h"

namespace duet {
namespace {

using nlohmann::json;

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

json numbers(const std::vector<double>& values) {
  json list = json::array();
  for (double value : values) list.push_back(number_json(value));
  return list;
}

// What the seeds gave, a value a seed.
struct SeedResults {
  std::vector<double> accuracy, final_loss, seconds, prepare;
  std::vector<uint64_t> halted;  // the seeds whose loss stopped being finite
  int64_t images = 0;
  size_t memory_bytes = 0;
};

void train_one_seed(const std::vector<Arm>& arms, size_t index, const Dataset& dataset,
                    uint64_t seed, TrainingShare* share, SeedResults* results) {
  const Arm& arm = arms[index];
  RunningArm running(arm, dataset, {}, seed);
  Training& training = running.training();
  const int64_t steps = training.steps_per_epoch() * arm.spec.train.epochs;
  const Elapsed watch;
  for (int64_t i = 0; i < steps; ++i) {
    run_interruptibly([&] { training.step(); });
    share->add_step(index);
  }
  running.context().synchronize();
  const double seconds = watch.seconds();
  if (training.state().halted) results->halted.push_back(seed);
  Metrics metrics;
  run_interruptibly([&] { metrics = training.evaluation().run(); });
  share->add_evaluation(index);
  results->accuracy.push_back(metrics.accuracy);
  results->final_loss.push_back(metrics.loss);
  results->seconds.push_back(seconds);
  results->prepare.push_back(running.prepare_seconds());
  results->images += steps * running.batch();
  results->memory_bytes = training.memory_bytes();
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (double value : values) total += value;
  return total;
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

json difference_json(size_t b, double limit, const std::vector<double>& loss_a,
                     const std::vector<double>& loss_b, const SeedResults& a_seeds,
                     const SeedResults& b_seeds) {
  std::vector<double> apart;
  double first_max = 0, first_share = 0;
  bool agree = true;
  for (size_t i = 0; i < loss_a.size(); ++i) {
    // Both not finite: they part no further.
    const bool both = std::isnan(loss_a[i]) && std::isnan(loss_b[i]);
    apart.push_back(both ? 0.0 : std::fabs(loss_a[i] - loss_b[i]));
    if (i >= kFirstSteps) continue;
    const double share = apart[i] / std::max(std::fabs(loss_a[i]), 1e-3);
    first_max = std::max(first_max, apart[i]);
    if (!both) {
      first_share = std::max(first_share, share);
      agree = agree && share <= limit;  // false for NaN
    }
  }
  const Difference accuracy = difference_of_means(a_seeds.accuracy, b_seeds.accuracy);
  const auto halted = [](const std::vector<double>& loss, const SeedResults& seeds) {
    return !seeds.halted.empty() ||
           std::any_of(loss.begin(), loss.end(), [](double l) { return std::isnan(l); });
  };
  const bool diverged = halted(loss_a, a_seeds) || halted(loss_b, b_seeds);
  const bool interval = !diverged && enough_seeds(a_seeds.accuracy, b_seeds.accuracy);
  return {
      {"a", 0},
      {"b", b},
      {"loss", numbers(apart)},
      {"first_10_max", number_json(first_max)},
      {"first_10_share", number_json(first_share)},
      {"first_10_limit", limit},
      {"losses_agree", agree},
      {"accuracy_mean_difference", diverged ? json() : json(accuracy.mean)},
      {"low", interval ? json(accuracy.low) : json()},
      {"high", interval ? json(accuracy.high) : json()},
      {"verdict", diverged ? "diverged" : compare_accuracies(a_seeds.accuracy, b_seeds.accuracy)}};
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

json compare_training(const std::vector<Arm>& arms, const Dataset& dataset, const StepTimes& steps,
                      const TrainingPlan& plan) {
  spdlog::info("training: {} losses of each arm, twice", plan.steps);
  TrainingShare share(arms, dataset, steps, plan);
  std::vector<std::vector<double>> loss, repeat;
  for (auto* both : {&loss, &repeat}) {
    for (size_t i = 0; i < arms.size(); ++i) {
      both->push_back(losses(arms, i, dataset, plan.steps, &share));
    }
  }

  json seeds = json::array();
  std::vector<SeedResults> results(arms.size());
  for (int64_t i = 0; i < plan.seeds; ++i) {
    const uint64_t seed = arms[0].spec.seed + static_cast<uint64_t>(i);
    seeds.push_back(seed);
    plan.progress(share.share(), "the training of seed " + std::to_string(seed));
    for (size_t j = 0; j < arms.size(); ++j) {
      const size_t arm = i % 2 ? arms.size() - 1 - j : j;  // no arm is always first
      train_one_seed(arms, arm, dataset, seed, &share, &results[arm]);
    }
    std::string accuracies;
    for (size_t j = 0; j < arms.size(); ++j) {
      accuracies += fmt::format("{}{} {:.2f}%", j ? ", " : "", arms[j].name,
                                100 * results[j].accuracy.back());
    }
    spdlog::info("training: seed {} of {}: accuracy {}", i + 1, plan.seeds, accuracies);
  }

  json list = json::array(), differences = json::array();
  for (size_t i = 0; i < arms.size(); ++i) {
    const auto halted = std::find_if(loss[i].begin(), loss[i].end(),
                                     [](double value) { return std::isnan(value); });
    json arm = {
        {"arm", i},
        {"loss", numbers(loss[i])},
        {"repeat_loss", numbers(repeat[i])},
        {"repeats", same_bits(loss[i], repeat[i])},
        {"halted_at", halted == loss[i].end() ? json() : json(halted - loss[i].begin() + 1)},
        {"halted_seeds", results[i].halted},
        {"accuracy", numbers(results[i].accuracy)},
        {"final_loss", numbers(results[i].final_loss)},
        {"images_per_second", static_cast<double>(results[i].images) / sum(results[i].seconds)},
        {"step_us", steps.has(i) ? json(1e6 * steps.training[i].summary().median) : json()},
        {"step_faults", faults_json(steps.faults[i])},
        {"seconds", numbers(results[i].seconds)},
        {"peak_memory_bytes", results[i].memory_bytes},
        {"prepare_s", summarise(results[i].prepare).median}};
    list.push_back(std::move(arm));
    if (i == 0) continue;
    const double limit =
        std::max(first_steps_limit(arms[0].spec.math), first_steps_limit(arms[i].spec.math));
    differences.push_back(difference_json(i, limit, loss[0], loss[i], results[0], results[i]));
  }
  return {{"batch", arms[0].spec.data.batch},
          {"epochs", arms[0].spec.train.epochs},
          {"seeds", seeds},
          {"steps_compared", plan.steps},
          {"arms", list},
          {"step_ratios", ratios_json(steps.pointers(steps.training))},
          {"differences", differences}};
}

}  // namespace duet
