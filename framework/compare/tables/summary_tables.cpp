#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "compare/tables/result_tables.h"
#include "compare/tables/table_cells.h"
#include "core/config.h"
#include "core/number_text.h"

namespace duet {
namespace {

Figure speed_figure(const Results& results, const ArmRatio& ratio, const Count& batch) {
  const Cell verdict = verdict_cell(ratio.verdict);
  Figure figure = {
      "training step, batch " + batch_text(batch), shown(ratio.speedup, format_speedup),
      results.arm_name(ratio.a) + " against " + results.arm_name(ratio.b), verdict.tone};
  const std::string spread = spread_of_same_code(ratio);
  if (!spread.empty()) figure.note += ", spread " + spread;
  const std::string interval = interval_text(ratio.low, ratio.high);
  if (interval != kNotMeasured) figure.note += ", " + interval;
  figure.note += ": " + verdict.text;
  return figure;
}

// The tensor nearest to its limit, of all arms and batch sizes.
std::optional<Figure> error_figure(const Results& results) {
  double worst = kUnknown;
  Figure figure;
  for (const LayersSection& batch : results.layers) {
    for (const RowPart& part : tensors_of(results, batch)) {
      const double share = part.tensor->share_of_limit;
      if (std::isnan(share) || share <= worst) continue;
      worst = share;
      // Beyond ten times the limit a percentage is hard to read.
      figure = {"largest error, of its limit",
                share > 10 ? format_significant(share) + "x" : format_share(share),
                part.arm_name + ", " + part.layer + " " + part.pass + " " + part.tensor->name +
                    ", batch " + batch_text(batch.batch),
                share <= 1 ? Tone::kPlain : Tone::kBad};
    }
  }
  if (std::isnan(worst)) return std::nullopt;
  return figure;
}

Figure accuracy_figure(const Results& results, const TrainingDifference& d) {
  const std::string value = printed("%+.2f", 100 * d.accuracy_mean_difference);
  const bool known = !std::isnan(d.low) && !std::isnan(d.high);
  const std::string interval = known ? printed(", %+.2f to %+.2f", 100 * d.low, 100 * d.high) : "";
  const Cell verdict = verdict_cell(d.verdict);
  return {
      "accuracy difference, points", value,
      results.arm_name(d.a) + " against " + results.arm_name(d.b) + interval + ": " + verdict.text,
      verdict.tone};
}

void add(ResultTable* table, const std::string& name, const std::string& value,
         Tone tone = Tone::kPlain) {
  if (!value.empty()) table->rows.push_back({{name}, {value, tone}});
}

// Nothing where the number is not known.
void add(ResultTable* table, const std::string& name, double value, std::string (*format)(double),
         const std::string& unit = "") {
  if (!std::isnan(value)) add(table, name, format(value) + unit);
}

void add_load(const LoadRecord& load, ResultTable* table) {
  add(table, "other processes' share of " + shown(load.cores, format_whole) + " cores",
      shown(load.others_share, format_share));
  add(table, "time spent waiting for a core", shown(load.waited_share, format_share));
  add(table, "load average at the end", shown(load.load_average, format_significant));
}

void add_clocks(const ClockRecord& clocks, ResultTable* table) {
  const double low = clocks.sm_mhz_min, high = clocks.sm_mhz_max;
  if (!std::isnan(low) && !std::isnan(high)) {
    add(table, "clock during the run",
        (low == high ? "" : format_significant(low) + " to ") + format_significant(high) + " MHz");
  }
  add(table, "highest temperature", clocks.temperature_c_max, format_significant, " °C");
  if (clocks.throttled) {
    add(table, "throttled",
        (*clocks.throttled ? "yes" : "no") +
            (clocks.reasons.empty() ? "" : ": " + join(clocks.reasons)),
        *clocks.throttled ? Tone::kBad : Tone::kPlain);
  }
  add(table, "samples of clock and temperature", clocks.samples, format_whole);
}

}  // namespace

std::vector<Figure> key_figures(const Results& results) {
  std::vector<Figure> figures;
  for (const LayersSection& batch : results.layers) {
    for (const ArmRatio& ratio : batch.step_ratios) {
      figures.push_back(speed_figure(results, ratio, batch.batch));
    }
  }
  // Where the layers were not asked for, the throughput tells of the same steps.
  if (figures.empty()) {
    for (const ThroughputRow& row : results.throughput) {
      for (const ArmRatio& ratio : row.training_ratios) {
        figures.push_back(speed_figure(results, ratio, row.batch));
      }
    }
  }
  if (const auto figure = error_figure(results)) figures.push_back(*figure);
  if (!results.training) return figures;
  for (const TrainingDifference& difference : results.training->differences) {
    if (std::isnan(difference.accuracy_mean_difference)) continue;
    figures.push_back(accuracy_figure(results, difference));
  }
  return figures;
}

nlohmann::json figures_json(const std::vector<Figure>& figures) {
  auto all = nlohmann::json::array();
  for (const Figure& figure : figures) {
    all.push_back({{"label", figure.label},
                   {"value", figure.value},
                   {"note", figure.note},
                   {"tone", tone_name(figure.tone)}});
  }
  return all;
}

ResultTable environment_table(const Results& results) {
  ResultTable table{{{"what", false}, {"value", false}}, {}};
  add(&table, "date", results.date);
  add(&table, "time the comparison took", results.seconds, format_seconds);
  add(&table, "math", results.math);
  add(&table, "measured", results.quick ? "quickly (--quick)" : "in full");
  add(&table, "changed by --quick", join(results.left_out, "; "));
  const EnvironmentRecord& environment = results.environment;
  const Environment& machine = environment.machine;
  add(&table, "Duet", environment.duet);
  add(&table, "GPU", machine.gpu);
  if (machine.gpu_memory_bytes > 0) {
    add(&table, "GPU memory", static_cast<double>(machine.gpu_memory_bytes), format_size);
  }
  add(&table, "driver", machine.driver);
  add(&table, "CPU", machine.cpu);
  if (machine.cpu_threads > 0) add(&table, "CPU threads", machine.cpu_threads, format_whole);
  add(&table, "system", machine.os);
  add(&table, "compiler", machine.compiler);
  for (const auto& [name, version] : machine.versions) add(&table, name, version);
  if (const auto& rates = environment.ceilings) {
    const std::string of = rates->device.empty() ? "" : " (" + rates->device + ", measured)";
    add(&table, "copy bandwidth" + of, rates->copy_gb_per_s, format_significant, " GB/s");
    add(&table, "fp32 peak" + of, rates->fp32_gflop_per_s, format_significant, " GFLOP/s");
    add(&table, "tf32 peak" + of, rates->tf32_gflop_per_s, format_significant, " GFLOP/s");
    add(&table, "empty launch" + of, rates->launch_us, format_significant, " µs");
  }
  if (environment.clocks) add_clocks(*environment.clocks, &table);
  if (environment.load) add_load(*environment.load, &table);
  return table;
}

}  // namespace duet
