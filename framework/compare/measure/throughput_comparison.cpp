#include "compare/measure/throughput_comparison.h"

#include "compare/results/records.h"

namespace duet {

ThroughputRow compare_throughput(StepTimer& timer, int64_t batch) {
  const StepTimes& steps = timer.at(batch);
  const auto speed_of = [&](const Times& times) {
    const Summary summary = times.summary();
    return StepSpeed{timing_of(summary), static_cast<double>(batch) / summary.median};
  };
  ThroughputRow row = {.batch = batch, .inference_without_loss = true};
  for (size_t i = 0; i < steps.errors.size(); ++i) {
    ThroughputArm& arm = row.arms.emplace_back();
    arm.arm = {i};
    if (steps.has(i)) {
      arm.training = speed_of(steps.training[i]);
      arm.inference = speed_of(steps.inference[i]);
    } else {
      arm.error = steps.errors[i].empty() ? steps.fault_text(i) : steps.errors[i];
    }
    if (steps.errors[i].empty()) arm.faults = faults_of(steps.faults[i]);
  }
  row.training_ratios = ratios_of(steps.pointers(steps.training));
  row.inference_ratios = ratios_of(steps.pointers(steps.inference));
  return row;
}

}  // namespace duet
