#include "compare/step_times.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>

#include "compare/step_outcomes.h"
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
  int64_t steps = 0, evaluations = 0;
};

/// Counts calls.
Contender counted(Contender contender, int64_t* count) {
  contender.seconds = [seconds = std::move(contender.seconds), count](int64_t calls) {
    *count += calls;
    return seconds(calls);
  };
  return contender;
}

/// Measures all arms at one batch, and checks what it measures.
class StepComparison {
 public:
  StepComparison(const std::vector<Arm>& arms, const Dataset& dataset, int64_t batch,
                 const Ceilings& ceilings)
      : arms_(arms),
        dataset_(dataset),
        ceilings_(ceilings),
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
    auto times = time_anew([this](int round) { return make(round); }, plan);
    note_outcomes();
    running_.clear();
    result_.training = std::move(times[0]);
    result_.inference = std::move(times[1]);
    for (size_t i = 0; i < arms_.size(); ++i) {
      if (result_.errors[i].empty()) check(i);
      if (!result_.has(i)) result_.training[i] = result_.inference[i] = {};
    }
    return std::move(result_);
  }

 private:
  std::vector<std::vector<Contender>> make(int round) {
    note_outcomes();
    for (TimedArm& timed : running_) timed = {};
    if (round >= 0) displacement_.grow();
    const size_t count = arms_.size();
    std::vector<Contender> training(count), inference(count);
    for (size_t k = 0; k < count; ++k) {
      InterruptGuard::check();
      const size_t i = round % 2 ? count - 1 - k : k;  // no arm's memory is always the first
      TimedArm& timed = running_[i];
      if (result_.has(i)) timed.arm = start(arms_[i], dataset_, result_.batch, &result_.errors[i]);
      if (!timed.arm) continue;
      timed.arm->training().restart_evaluation();
      training[i] = counted(training_steps(*timed.arm), &timed.steps);
      inference[i] = counted(inference_steps(*timed.arm), &timed.evaluations);
      if (round < 0) result_.prepare_seconds[i] = timed.arm->prepare_seconds();
    }
    return {training, inference};
  }

  void note_outcomes() {
    for (size_t i = 0; i < running_.size(); ++i) {
      const TimedArm& timed = running_[i];
      if (!timed.arm) continue;
      outcomes_[i].push_back(step_outcome(*timed.arm, timed.steps, timed.evaluations));
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

nlohmann::json faults_json(const std::vector<NetworkFault>& faults) {
  nlohmann::json list = nlohmann::json::array();
  for (const NetworkFault& each : faults) {
    list.push_back({{"layer", each.layer},
                    {"pass", each.pass},
                    {"kind", to_string(each.fault.kind)},
                    {"text", each.fault.text}});
  }
  return list;
}

const StepTimes& StepTimer::at(int64_t batch) {
  const auto known = known_.find(batch);
  if (known != known_.end()) return known->second;
  spdlog::info("steps of batch {}: all arms side by side", batch);
  StepComparison comparison(arms_, dataset_, batch, ceilings_);
  return known_.emplace(batch, comparison.run(plan_)).first->second;
}

}  // namespace duet
