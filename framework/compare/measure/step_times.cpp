#include "compare/measure/step_times.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>

#include "compare/measure/step_outcomes.h"
#include "core/error.h"
#include "core/interrupt.h"

namespace duet {
namespace {

// A library that is refused memory says so in its own words.
bool is_out_of_memory(const DeviceError& error) {
  const std::string text = error.what();
  return text.find("ALLOC_FAILED") != std::string::npos ||
         text.find("MemoryAllocation") != std::string::npos;
}

// The arm at this batch size, or nothing and the reason.
std::unique_ptr<RunningArm> start(const Arm& arm, const Dataset& dataset, int64_t batch,
                                  std::string* reason) {
  try {
    if (batch > dataset.train.count) {
      *reason = "a batch of " + std::to_string(batch) + " is larger than the " +
                std::to_string(dataset.train.count) + " training images of " + dataset.name;
      return nullptr;
    }
    return std::make_unique<RunningArm>(arm, dataset, batch);
  } catch (const DeviceError& error) {
    if (!is_out_of_memory(error)) throw;
    *reason = error.what();
  } catch (const InterruptedError&) {
    throw;
  } catch (const UnusableProcessError&) {
    throw;
  } catch (const Error& error) {
    *reason = error.what();
  } catch (const std::bad_alloc&) {
    *reason = "out of memory";
  }
  return nullptr;
}

Device device_of(const std::vector<Arm>& arms) {
  const bool gpu = std::any_of(arms.begin(), arms.end(),
                               [](const Arm& arm) { return arm.device() == Device::kGpu; });
  return gpu ? Device::kGpu : Device::kCpu;
}

/// The arms of one round, and what they have done in it.
struct TimedArm {
  std::unique_ptr<RunningArm> arm;
  int64_t steps = 0, inferences = 0;
};

/// Counts calls, and tells of each block before it runs.
Workload counted(Workload workload, int64_t* count, const std::function<void()>& tell) {
  workload.seconds = [seconds = std::move(workload.seconds), count, tell](int64_t calls) {
    tell();
    *count += calls;
    return seconds(calls);
  };
  return workload;
}

/// Measures all arms at one batch, and checks what it measures.
class StepComparison {
 public:
  StepComparison(const std::vector<Arm>& arms, const Dataset& dataset, int64_t batch,
                 const Ceilings& ceilings, const std::function<void(double)>& progress)
      : arms_(arms),
        dataset_(dataset),
        ceilings_(ceilings),
        progress_(progress),
        displacement_(device_of(arms)),
        running_(arms.size()),
        outcomes_(arms.size()) {
    const size_t count = arms.size();
    result_ = {.batch = batch,
               .prepare_seconds = std::vector<double>(count),
               .errors = std::vector<std::string>(count),
               .faults = std::vector<std::vector<NetworkFault>>(count)};
  }

  StepTimes run(const TimingPlan& plan) {
    rounds_ = plan.rounds;
    auto times = time_anew([this](int round) { return make(round); }, plan);
    note_outcomes();
    running_.clear();
    result_.training = std::move(times[0]);
    result_.inference = std::move(times[1]);
    for (size_t i = 0; i < arms_.size(); ++i) {
      tell(1 - kChecksShare * (1 - static_cast<double>(i) / static_cast<double>(arms_.size())));
      if (result_.errors[i].empty()) check(i);
      if (!result_.has(i)) result_.training[i] = result_.inference[i] = {};
    }
    return std::move(result_);
  }

 private:
  static constexpr double kChecksShare = 0.2;  // of the time, that of the checks after the rounds

  void tell(double share) const {
    if (progress_) progress_(share);
  }

  std::vector<std::vector<Workload>> make(int round) {
    const double share = std::min(1.0, (round + 1.0) / (rounds_ + 1)) * (1 - kChecksShare);
    const auto tell_block = [this, share] { tell(share); };
    note_outcomes();
    for (TimedArm& timed : running_) timed = {};
    if (round >= 0) displacement_.grow();
    const size_t count = arms_.size();
    std::vector<Workload> training(count), inference(count);
    for (size_t k = 0; k < count; ++k) {
      InterruptGuard::check();
      const size_t i = round % 2 ? count - 1 - k : k;  // no arm's memory is always the first
      TimedArm& timed = running_[i];
      if (result_.has(i)) timed.arm = start(arms_[i], dataset_, result_.batch, &result_.errors[i]);
      if (!timed.arm) continue;
      timed.arm->training().evaluation().restart();
      training[i] = counted(training_steps(*timed.arm), &timed.steps, tell_block);
      inference[i] = counted(inference_steps(*timed.arm), &timed.inferences, tell_block);
      if (round < 0) result_.prepare_seconds[i] = timed.arm->prepare_seconds();
    }
    return {training, inference};
  }

  void note_outcomes() {
    for (size_t i = 0; i < running_.size(); ++i) {
      const TimedArm& timed = running_[i];
      if (!timed.arm) continue;
      outcomes_[i].push_back(step_outcome(*timed.arm, timed.steps, timed.inferences));
    }
  }

  void check(size_t i) {
    std::unique_ptr<RunningArm> arm = start(arms_[i], dataset_, result_.batch, &result_.errors[i]);
    if (!arm) return;
    auto& faults = result_.faults[i];
    if (auto fault = check_outcomes(*arm, outcomes_[i])) faults.push_back({"", "", *fault});
    for (NetworkFault& fault : check_network(*arm)) faults.push_back(std::move(fault));
    const auto add_if_impossible = [&](const Times& times, const char* what, bool training) {
      const double least = least_step_seconds(ceilings_, *arm, training);
      if (times.summary().median >= least) return;
      faults.push_back({"", "", impossible_time(what, times.summary().median, least)});
    };
    add_if_impossible(result_.training[i], "a training step", true);
    add_if_impossible(result_.inference[i], "inference of a batch", false);
  }

  const std::vector<Arm>& arms_;
  const Dataset& dataset_;
  const Ceilings& ceilings_;
  const std::function<void(double)>& progress_;
  int rounds_ = 1;
  Displacement displacement_;
  StepTimes result_;
  std::vector<TimedArm> running_;
  std::vector<std::vector<StepOutcome>> outcomes_;  // by arm, a round each
};

}  // namespace

std::vector<const Times*> StepTimes::pointers(const std::vector<Times>& times) const {
  std::vector<const Times*> list;
  for (size_t i = 0; i < times.size(); ++i) list.push_back(has(i) ? &times[i] : nullptr);
  return list;
}

std::string StepTimes::fault_text(size_t arm) const {
  std::string text;
  for (const NetworkFault& fault : faults[arm]) {
    text += (text.empty() ? "" : "\n") + fault.layer + (fault.layer.empty() ? "" : " ") +
            fault.pass + (fault.layer.empty() ? "" : ": ") + fault.fault.text;
  }
  return text;
}

StepTimes estimate_steps(const std::vector<Arm>& arms, const Dataset& dataset, int64_t batch) {
  const int64_t few = std::min<int64_t>(8, batch);
  const double scale = static_cast<double>(batch) / static_cast<double>(few);
  StepTimes estimate = {.batch = batch,
                        .training = std::vector<Times>(arms.size()),
                        .inference = std::vector<Times>(arms.size()),
                        .prepare_seconds = std::vector<double>(arms.size()),
                        .errors = std::vector<std::string>(arms.size()),
                        .faults = std::vector<std::vector<NetworkFault>>(arms.size())};
  for (size_t i = 0; i < arms.size(); ++i) {
    estimate.training[i].seconds = estimate.inference[i].seconds = {0.0};
    if (arms[i].device() != Device::kCpu) continue;
    const auto arm = start(arms[i], dataset, few, &estimate.errors[i]);
    if (!arm) continue;
    // The first step pays for what only a first one does.
    const auto least_of_two = [&](const Workload& workload) {
      const double first = workload.seconds(1);
      return scale * std::min(first, workload.seconds(1));
    };
    estimate.training[i].seconds = {least_of_two(training_steps(*arm))};
    estimate.inference[i].seconds = {least_of_two(inference_steps(*arm))};
  }
  return estimate;
}

const StepTimes& StepTimer::at(int64_t batch) {
  const auto known = known_.find(batch);
  if (known != known_.end()) return known->second;
  spdlog::info("steps of batch {}: all arms side by side", batch);
  StepComparison comparison(arms_, dataset_, batch, ceilings_, progress_);
  return known_.emplace(batch, comparison.run(plan_)).first->second;
}

}  // namespace duet
