#include "compare/results/layer_rows.h"

#include "compare/results/problem.h"
#include "compare/results/records.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

TensorError error_of(const TensorResult& tensor) {
  const Agreement& a = tensor.agreement;
  return {.name = tensor.name,
          .worst = a.worst < 0 ? "" : index_text(tensor.desc, a.worst),
          .limit = tensor.limit.to_string(),
          .max_error = a.max_error,
          .rms_relative = a.rms_relative,
          .cosine = a.cosine,
          .expected = a.expected,
          .found = a.found,
          .share_of_limit = a.share_of_limit};
}

std::optional<MeasuredArm> measured_arm(const RowFacts& facts, const RowArm& arm) {
  if (!arm.layer || !arm.measurement) return {};
  const PassMeasurement& m = *arm.measurement;
  MeasuredArm measured = {.implementation = arm.id,
                          .detail = m.detail,
                          .shared = arm.shared,
                          .agrees = m.examination.passed(),
                          .workspace_bytes = m.workspace_bytes,
                          .prepare_s = m.prepare_seconds};
  for (const Fault& fault : m.examination.faults) {
    measured.faults.push_back({std::string(to_string(fault.kind)), fault.text, fault.picture});
  }
  for (const TensorResult& tensor : m.examination.tensors) {
    measured.tensors.push_back(error_of(tensor));
  }
  if (m.cold) measured.cold_us = timing_of(m.cold->summary());
  if (!m.warm) return measured;
  const Summary time = m.warm->summary();
  const double flops = arm.layer->flops(facts.pass);
  measured.us = timing_of(time);
  for (const double seconds : m.warm->seconds) measured.rounds_us.push_back(1e6 * seconds);
  if (flops > 0) measured.gflop_per_s = flops / time.median / 1e9;
  measured.gb_per_s = least_bytes(*arm.layer, facts.pass) / time.median / 1e9;
  if (facts.floor_seconds) measured.share_of_floor = *facts.floor_seconds / time.median;
  return measured;
}

}  // namespace

MeasuredRow measured_row(const RowFacts& facts, const std::vector<RowArm>& arms) {
  MeasuredRow row = {.layer = facts.name,
                     .type = std::string(facts.layer->type()),
                     .pass = std::string(to_string(facts.pass)),
                     .problem = facts.layer->problem_text(),
                     .repeat = facts.repeat,
                     .flops = facts.layer->flops(facts.pass),
                     .bytes = least_bytes(*facts.layer, facts.pass),
                     .floor_us = facts.floor_seconds ? 1e6 * *facts.floor_seconds : kUnknown};
  for (const RowArm& arm : arms) row.arms.push_back(measured_arm(facts, arm));
  return row;
}

void add_ratio(const std::vector<RowArm>& arms, size_t a, size_t b, ArmRatios* ratios) {
  const Times *first = arms[a].times(), *second = arms[b].times();
  if (first && second) ratios->push_back(ratio_of(a, b, *first, *second));
}

std::string repeat_command(const Layer& layer, Pass pass) {
  return "bench " + std::string(layer.type()) + " --shape " + problem_argument(layer) + " --pass " +
         std::string(to_string(pass)) + kernel_options(layer.type());
}

}  // namespace duet
