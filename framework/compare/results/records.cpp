#include "compare/results/records.h"

#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "compare/results/results_json.h"
#include "net/table.h"
#include "train/version.h"

namespace duet {

Timing timing_of(const Summary& seconds) {
  return {1e6 * seconds.median, 1e6 * seconds.p20, 1e6 * seconds.p80};
}

ArmRatio ratio_of(size_t a, size_t b, const Times& times_a, const Times& times_b) {
  if (same_code(times_a, times_b)) {
    std::vector<double> seconds = times_a.seconds;
    seconds.insert(seconds.end(), times_b.seconds.begin(), times_b.seconds.end());
    const Summary all = summarise(seconds);
    return {.a = {a},
            .b = {b},
            .verdict = kSameCode,
            .spread = {{all.p20 / all.median, all.p80 / all.median}}};
  }
  const Ratio ratio = speedup(times_a.seconds, times_b.seconds);
  return {.a = {a},
          .b = {b},
          .speedup = ratio.speedup,
          .low = ratio.low,
          .high = ratio.high,
          .verdict = std::string(to_string(ratio.verdict))};
}

ArmRatios ratios_of(const std::vector<const Times*>& times) {
  ArmRatios ratios;
  if (times.empty() || !times[0]) return ratios;
  for (size_t i = 1; i < times.size(); ++i) {
    if (times[i]) ratios.push_back(ratio_of(0, i, *times[0], *times[i]));
  }
  return ratios;
}

StepFaults faults_of(const std::vector<NetworkFault>& faults) {
  StepFaults all;
  for (const NetworkFault& each : faults) {
    all.push_back(
        {{std::string(to_string(each.fault.kind)), each.fault.text}, each.layer, each.pass});
  }
  return all;
}

std::vector<ArmRecord> records_of(const RunningArms& arms) {
  std::vector<ArmRecord> records;
  for (const auto& running : arms) {
    const Arm& arm = running->arm();
    records.push_back({.name = arm.name,
                       .request = arm.request,
                       .device = std::string(to_string(arm.device())),
                       .math = std::string(to_string(arm.spec.math)),
                       .config = arm.config,
                       .network = network_from(
                           network_json(running->setup().layers, &running->training().net()))});
  }
  return records;
}

EnvironmentRecord environment_record() {
  return {.duet = version_text(), .machine = read_environment()};
}

CeilingRates rates_of(const Ceilings& ceilings, Device device) {
  CeilingRates rates = {.device = std::string(to_string(device)),
                        .copy_gb_per_s = 1e-9 * ceilings.copy_bytes_per_second,
                        .fp32_gflop_per_s = 1e-9 * ceilings.fp32_flops_per_second};
  if (device == Device::kGpu) {
    rates.tf32_gflop_per_s = 1e-9 * ceilings.tf32_flops_per_second;
    rates.launch_us = 1e6 * ceilings.launch_seconds;
  }
  return rates;
}

Ceilings ceilings_of(const CeilingRates& rates) {
  const auto known = [](double value) { return std::isnan(value) ? 0.0 : value; };
  return {.copy_bytes_per_second = 1e9 * known(rates.copy_gb_per_s),
          .fp32_flops_per_second = 1e9 * known(rates.fp32_gflop_per_s),
          .tf32_flops_per_second = 1e9 * known(rates.tf32_gflop_per_s),
          .launch_seconds = 1e-6 * known(rates.launch_us)};
}

std::optional<ClockRecord> record_of(const ClockReport& report) {
  if (report.samples == 0) return {};
  return ClockRecord{.samples = report.samples,
                     .sm_mhz_min = report.sm_mhz_min,
                     .sm_mhz_max = report.sm_mhz_max,
                     .temperature_c_max = report.temperature_c_max,
                     .throttled_share = static_cast<double>(report.slowed_samples) / report.samples,
                     .throttled = !report.reasons.empty(),
                     .reasons = report.reasons};
}

std::optional<LoadRecord> record_of(const LoadReport& report) {
  if (!report.known) return {};
  return LoadRecord{.cores = report.cores,
                    .others_share = report.others_share,
                    .waited_share = report.waited_share,
                    .load_average = report.load_average};
}

std::optional<ClockRecord> both(const std::optional<ClockRecord>& a,
                                const std::optional<ClockRecord>& b) {
  if (!a || !b) return a ? a : b;
  ClockRecord all = *b;
  all.samples.value = a->samples + b->samples;
  all.sm_mhz_min.value = std::fmin(a->sm_mhz_min, b->sm_mhz_min);
  all.sm_mhz_max.value = std::fmax(a->sm_mhz_max, b->sm_mhz_max);
  all.temperature_c_max.value = std::fmax(a->temperature_c_max, b->temperature_c_max);
  all.throttled_share =
      (a->samples * a->throttled_share + b->samples * b->throttled_share) / all.samples;
  all.throttled = a->throttled == true || b->throttled == true;
  all.reasons.insert(all.reasons.begin(), a->reasons.begin(), a->reasons.end());
  return all;
}

std::optional<LoadRecord> both(const std::optional<LoadRecord>& a,
                               const std::optional<LoadRecord>& b) {
  if (!a || !b) return a ? a : b;
  return LoadRecord{.cores = b->cores,
                    .others_share = std::fmax(a->others_share, b->others_share),
                    .waited_share = std::fmax(a->waited_share, b->waited_share),
                    .load_average = std::fmax(a->load_average, b->load_average)};
}

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

}  // namespace duet
