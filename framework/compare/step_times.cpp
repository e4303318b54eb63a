#include "compare/step_times.h"

#include <spdlog/spdlog.h>

#include <new>

#include "core/error.h"

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

// One of the two things that are timed.
class Work {
 public:
  Work(Contender (*contender)(RunningArm&), std::vector<Times>* times)
      : contender_(contender), times_(*times), calls_(times->size(), 0) {}

  /// Adds a round to the times of the arms that run; one that only warms up if `counts` is false.
  void time(const RunningArms& running, double block_seconds, bool counts) {
    std::vector<Contender> contenders;
    std::vector<int64_t> calls;
    std::vector<size_t> arms;
    for (size_t i = 0; i < running.size(); ++i) {
      if (!running[i]) continue;
      arms.push_back(i);
      contenders.push_back(contender_(*running[i]));
      if (calls_[i] == 0) {
        calls_[i] = calls_for(contenders.back(), block_seconds);
      } else {
        contenders.back().seconds((calls_[i] + 3) / 4);  // what is new has to warm up
      }
      calls.push_back(calls_[i]);
    }
    const std::vector<double> seconds = time_round(contenders, calls);
    if (!counts) return;
    for (size_t k = 0; k < arms.size(); ++k) {
      times_[arms[k]].calls = calls[k];
      times_[arms[k]].seconds.push_back(seconds[k]);
    }
  }

  bool is_unclear() const {
    for (size_t i = 1; i < times_.size(); ++i) {
      const auto& a = times_[0].seconds;
      const auto& b = times_[i].seconds;
      if (a.empty() || b.empty()) continue;
      if (speedup(a, b).verdict == Verdict::kUnclear) return true;
    }
    return false;
  }

 private:
  Contender (*const contender_)(RunningArm&);
  std::vector<Times>& times_;
  std::vector<int64_t> calls_;
};

StepTimes time_steps(const std::vector<Arm>& arms, const Dataset& dataset, int64_t batch,
                     const TimingPlan& plan) {
  const size_t count = arms.size();
  StepTimes result = {.batch = batch,
                      .training = std::vector<Times>(count),
                      .inference = std::vector<Times>(count),
                      .errors = std::vector<std::string>(count)};
  Work training(training_steps, &result.training), inference(inference_steps, &result.inference);
  std::vector<Buffer> displacements;
  for (int round = -1; round < plan.most_rounds; ++round) {  // round -1 warms up
    if (round >= plan.rounds && !training.is_unclear() && !inference.is_unclear()) break;
    RunningArms running(count);
    bool any = false;
    for (size_t k = 0; k < count; ++k) {
      const size_t i = round % 2 == 0 ? k : count - 1 - k;
      if (result.has(i)) running[i] = start(arms[i], dataset, batch, &result.errors[i]);
      any = any || running[i];
    }
    if (!any) break;
    training.time(running, plan.block_seconds, round >= 0);
    inference.time(running, plan.block_seconds, round >= 0);
    constexpr size_t kPage = size_t{2} << 20;  // of the GPU's memory
    displacements.emplace_back(arms[0].device(), kPage / 2 * (2 + displacements.size() % 5));
  }
  for (size_t i = 0; i < count; ++i) {  // an arm with an error is not half measured
    if (!result.has(i)) result.training[i] = result.inference[i] = {};
  }
  return result;
}

}  // namespace

std::vector<const Times*> StepTimes::pointers(const std::vector<Times>& times) const {
  std::vector<const Times*> list;
  for (size_t i = 0; i < times.size(); ++i) list.push_back(has(i) ? &times[i] : nullptr);
  return list;
}

const StepTimes& StepTimer::at(int64_t batch) {
  const auto known = known_.find(batch);
  if (known != known_.end()) return known->second;
  spdlog::info("steps of batch {}: all arms side by side", batch);
  return known_.emplace(batch, time_steps(arms_, dataset_, batch, plan_)).first->second;
}

}  // namespace duet
