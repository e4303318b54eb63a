#include "compare/step_times.h"

#include <spdlog/spdlog.h>

#include <algorithm>
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

Device device_of(const std::vector<Arm>& arms) {
  const bool gpu = std::any_of(arms.begin(), arms.end(),
                               [](const Arm& arm) { return arm.device() == Device::kGpu; });
  return gpu ? Device::kGpu : Device::kCpu;
}

StepTimes time_steps(const std::vector<Arm>& arms, const Dataset& dataset, int64_t batch,
                     const TimingPlan& plan) {
  const size_t count = arms.size();
  StepTimes result = {.batch = batch,
                      .prepare_seconds = std::vector<double>(count),
                      .errors = std::vector<std::string>(count)};
  RunningArms running(count);
  Displacement displacement(device_of(arms));
  const auto make = [&](int round) {
    for (auto& arm : running) arm.reset();
    if (round >= 0) displacement.grow();
    std::vector<Contender> training(count), inference(count);
    for (size_t k = 0; k < count; ++k) {
      const size_t i = round % 2 ? count - 1 - k : k;  // no arm's memory is always the first
      if (result.has(i)) running[i] = start(arms[i], dataset, batch, &result.errors[i]);
      if (!running[i]) continue;
      training[i] = training_steps(*running[i]);
      inference[i] = inference_steps(*running[i]);
      if (round < 0) result.prepare_seconds[i] = running[i]->prepare_seconds();
    }
    return std::vector<std::vector<Contender>>{training, inference};
  };
  auto times = time_anew(make, plan);
  for (size_t i = 0; i < count; ++i) {  // an arm that failed later is not half measured
    if (!result.has(i)) times[0][i] = times[1][i] = {};
  }
  result.training = std::move(times[0]);
  result.inference = std::move(times[1]);
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
