#include "compare/throughput_comparison.h"

#include <spdlog/spdlog.h>

#include <new>
#include <nlohmann/json.hpp>

#include "compare/results.h"
#include "core/error.h"

namespace duet {
namespace {

using nlohmann::json;

// Times of the arms that run, a null pointer for the others.
struct Measured {
  std::vector<Times> times;
  std::vector<const Times*> of_arm;
};

Measured measure(const RunningArms& running, Contender (*contender)(RunningArm&),
                 const TimingPlan& timing) {
  std::vector<Contender> contenders;
  for (const auto& arm : running) {
    if (arm) contenders.push_back(contender(*arm));
  }
  Measured measured{time_interleaved(contenders, timing), {}};
  size_t next = 0;
  for (const auto& arm : running) {
    measured.of_arm.push_back(arm ? &measured.times[next++] : nullptr);
  }
  return measured;
}

void put_times(json& arm, const std::string& what, const Times& times, int64_t batch) {
  arm[what + "_us"] = microseconds_json(times.summary());
  arm[what + "_images_per_s"] = static_cast<double>(batch) / times.summary().median;
}

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

json compare_batch(const std::vector<Arm>& arms, const Dataset& dataset, int64_t batch,
                   const TimingPlan& timing) {
  RunningArms running;
  json list = json::array();
  bool any = false;
  for (size_t i = 0; i < arms.size(); ++i) {
    std::string reason;
    running.push_back(start(arms[i], dataset, batch, &reason));
    any = any || running.back();
    list.push_back({{"arm", i}});
    if (!running.back()) list.back()["error"] = reason;
  }
  json row = {{"batch", batch}};
  if (any) {
    const Measured training = measure(running, training_steps, timing);
    const Measured inference = measure(running, inference_steps, timing);
    for (size_t i = 0; i < arms.size(); ++i) {
      if (!running[i]) continue;
      put_times(list[i], "training", *training.of_arm[i], batch);
      put_times(list[i], "inference", *inference.of_arm[i], batch);
    }
    row["training_ratios"] = ratios_json(training.of_arm);
    row["inference_ratios"] = ratios_json(inference.of_arm);
  }
  row["arms"] = std::move(list);
  return row;
}

}  // namespace

json compare_throughput(const std::vector<Arm>& arms, const Dataset& dataset,
                        const std::vector<int64_t>& batches, const TimingPlan& timing) {
  json rows = json::array();
  for (int64_t batch : batches) {
    spdlog::info("throughput: batch {}", batch);
    rows.push_back(compare_batch(arms, dataset, batch, timing));
  }
  return rows;
}

}  // namespace duet
