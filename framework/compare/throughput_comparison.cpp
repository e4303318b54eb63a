#include "compare/throughput_comparison.h"

#include <nlohmann/json.hpp>

#include "compare/results.h"

namespace duet {
namespace {

using nlohmann::json;

void put_times(json& arm, const std::string& what, const Times& times, int64_t batch) {
  arm[what + "_us"] = microseconds_json(times.summary());
  arm[what + "_images_per_s"] = static_cast<double>(batch) / times.summary().median;
}

json row_of(const StepTimes& steps) {
  json row = {{"batch", steps.batch}, {"arms", json::array()}};
  bool any = false;
  for (size_t i = 0; i < steps.errors.size(); ++i) {
    json arm = {{"arm", i}};
    if (steps.has(i)) {
      put_times(arm, "training", steps.training[i], steps.batch);
      put_times(arm, "inference", steps.inference[i], steps.batch);
      any = true;
    } else {
      arm["error"] = steps.errors[i].empty() ? steps.fault_text(i) : steps.errors[i];
    }
    if (steps.errors[i].empty()) arm["faults"] = faults_json(steps.faults[i]);
    row["arms"].push_back(std::move(arm));
  }
  if (any) {
    row["training_ratios"] = ratios_json(steps.pointers(steps.training));
    row["inference_ratios"] = ratios_json(steps.pointers(steps.inference));
  }
  return row;
}

}  // namespace

json compare_throughput(StepTimer& timer, const std::vector<int64_t>& batches) {
  json rows = json::array();
  for (int64_t batch : batches) rows.push_back(row_of(timer.at(batch)));
  return rows;
}

}  // namespace duet
