#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "compare/tables/result_tables.h"
#include "compare/tables/table_cells.h"
#include "core/number_text.h"

namespace duet {
namespace {

std::vector<double> known(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  return values;
}

double mean(const std::vector<double>& all) {
  const std::vector<double> values = known(all);
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

std::string range_text(const std::vector<double>& all, std::string (*format)(double)) {
  const std::vector<double> values = known(all);
  if (values.size() < 2) return kNotMeasured;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return format(*low) + " to " + format(*high);
}

double at(const std::vector<double>& values, size_t i) {
  return i < values.size() ? values[i] : kUnknown;
}

// "+0.05" percentage points.
std::string points(double difference) {
  return printed(std::fabs(difference) < 1e13 ? "%+.2f" : "%+.1e", 100 * difference);
}

/// A pass of a layer; nullptr where there is nothing to choose.
struct LayerPass {
  const NetworkLayer* layer;
  const NetworkPass* pass;
};

}  // namespace

ResultTable ratio_table(const Results& results, const ArmRatios& ratios) {
  return TableOf(ratios)
      .words("arm", [&](const ArmRatio& ratio) { return results.arm_name(ratio.a); })
      .words("against", [&](const ArmRatio& ratio) { return results.arm_name(ratio.b); })
      .numbers("speedup",
               [](const ArmRatio& ratio) {
                 const std::string spread = spread_of_same_code(ratio);
                 return spread.empty() ? shown(ratio.speedup, format_speedup) : "spread " + spread;
               })
      .numbers("95%", [](const ArmRatio& ratio) { return interval_text(ratio.low, ratio.high); })
      .words("verdict", [](const ArmRatio& ratio) { return verdict_cell(ratio.verdict); });
}

ResultTable training_table(const Results& results) {
  if (!results.training) return {};
  const auto& arms = results.training->arms;
  const auto halted_at = [](const TrainedArm& arm) -> double { return arm.halted_at; };
  TableOf<TrainedArm> table(arms);
  table.words("arm", [&](const TrainedArm& arm) { return results.arm_name(arm.arm); })
      .numbers("images/s", &TrainedArm::images_per_second, format_whole)
      .numbers("step µs", &TrainedArm::step_us)
      .numbers(
          "seconds a run", [](const auto& arm) { return mean(arm.seconds); }, format_seconds)
      .numbers("prepare", &TrainedArm::prepare_s, format_seconds)
      .numbers("peak memory", &TrainedArm::peak_memory_bytes, format_size)
      .numbers(
          "final loss, mean", [](const auto& arm) { return mean(arm.final_loss); }, format_value)
      .numbers(
          "accuracy, mean", [](const auto& arm) { return mean(arm.accuracy); }, format_accuracy)
      .numbers("accuracy, range",
               [](const auto& arm) { return range_text(arm.accuracy, format_accuracy); })
      .words("same bits again", [](const TrainedArm& arm) {
        return !arm.repeats ? kNotMeasured : *arm.repeats ? "yes" : "no";
      });
  if (std::any_of(arms.begin(), arms.end(),
                  [&](const TrainedArm& arm) { return !std::isnan(halted_at(arm)); })) {
    table.numbers("halted at step", [&](const TrainedArm& arm) {
      const double step = halted_at(arm);
      return Cell{shown(step, format_whole), std::isnan(step) ? Tone::kPlain : Tone::kBad};
    });
  }
  return table;
}

ResultTable seed_table(const Results& results) {
  if (!results.training) return {};
  const TrainingSection& training = *results.training;
  std::vector<size_t> places(training.seeds.size());
  std::iota(places.begin(), places.end(), 0);
  TableOf<size_t> table(places);
  table.numbers("seed", [&](size_t i) { return std::to_string(training.seeds[i]); });
  for (const TrainedArm& arm : training.arms) {
    const std::string name = results.arm_name(arm.arm);
    table.numbers(
        name + " accuracy", [&](size_t i) { return at(arm.accuracy, i); }, format_accuracy);
    table.numbers(
        name + " final loss", [&](size_t i) { return at(arm.final_loss, i); }, format_value);
  }
  return table;
}

ResultTable difference_table(const Results& results) {
  if (!results.training) return {};
  return TableOf(results.training->differences)
      .words("arm", [&](const auto& d) { return results.arm_name(d.a); })
      .words("against", [&](const auto& d) { return results.arm_name(d.b); })
      .numbers("largest |difference| of loss, first 10 steps", &TrainingDifference::first_10_max,
               format_error)
      .numbers("of the loss", &TrainingDifference::first_10_share, format_share)
      .numbers("accuracy difference, points", &TrainingDifference::accuracy_mean_difference, points)
      .numbers("95%",
               [](const TrainingDifference& d) {
                 const bool known = !std::isnan(d.low) && !std::isnan(d.high);
                 return known ? points(d.low) + " to " + points(d.high) : kNotMeasured;
               })
      .words("verdict", [](const auto& d) { return verdict_cell(d.verdict); });
}

ResultTable loss_table(const Results& results) {
  if (!results.training) return {};
  const TrainingSection& training = *results.training;
  size_t most = 0;
  for (const TrainedArm& arm : training.arms) most = std::max(most, arm.loss.size());
  std::vector<size_t> steps(most);
  std::iota(steps.begin(), steps.end(), 0);
  TableOf<size_t> table(steps);
  table.numbers("step", [](size_t i) { return std::to_string(i + 1); });
  for (const TrainedArm& arm : training.arms) {
    table.numbers(
        results.arm_name(arm.arm), [&](size_t i) { return at(arm.loss, i); }, format_value);
  }
  for (const TrainingDifference& d : training.differences) {
    table.numbers(
        "|" + results.arm_name(d.a) + " - " + results.arm_name(d.b) + "|",
        [&](size_t i) { return at(d.loss, i); }, format_error);
  }
  for (const TrainedArm& arm : training.arms) {
    if (arm.repeat_loss.empty()) continue;
    table.numbers(
        "|" + results.arm_name(arm.arm) + " - its repeat|",
        [&](size_t i) { return std::fabs(at(arm.loss, i) - at(arm.repeat_loss, i)); },
        format_error);
  }
  return table;
}

ResultTable throughput_table(const Results& results, const StepKind& kind) {
  const auto speed_of = [&](const ThroughputRow& row, size_t i) {
    for (const ThroughputArm& arm : row.arms) {
      if (arm.arm == i) return arm.*kind.speed;
    }
    return StepSpeed{};
  };
  std::vector<ThroughputRow> rows;  // that were measured
  for (const ThroughputRow& row : results.throughput) {
    bool measured = false;
    for (size_t i = 0; i < results.arms.size(); ++i) measured |= speed_of(row, i).us.known();
    if (measured) rows.push_back(row);
  }
  TableOf<ThroughputRow> table(rows);
  table.numbers("batch", [](const ThroughputRow& row) { return batch_text(row.batch); });
  for (size_t i = 0; i < results.arms.size(); ++i) {
    table.numbers(results.arm_name(i) + " µs",
                  [&](const ThroughputRow& row) { return speed_of(row, i).us; });
    table.numbers(
        results.arm_name(i) + " images/s",
        [&](const ThroughputRow& row) { return speed_of(row, i).images_per_s; }, format_whole);
  }
  std::set<ArmPair> pairs;
  for (const ThroughputRow& row : results.throughput) add_pairs(row.*kind.ratios, &pairs);
  add_ratio_columns(results, pairs, kind.ratios, &table);
  return table;
}

std::string inference_words(const Results& results) {
  const bool without = std::any_of(
      results.throughput.begin(), results.throughput.end(),
      [](const ThroughputRow& row) { return row.inference_without_loss.value_or(false); });
  return without ? "images to outputs, without the loss"
                 : "images to loss and counts, as an evaluation has them";
}

ResultTable not_run_table(const Results& results) {
  ResultTable table{{{"batch"}, {"arm", false}, {"why it did not run", false}}, {}};
  for (const ThroughputRow& row : results.throughput) {
    for (const ThroughputArm& arm : row.arms) {
      if (arm.error.empty()) continue;
      table.rows.push_back({{batch_text(row.batch)}, {results.arm_name(arm.arm)}, {arm.error}});
    }
  }
  return table;
}

ResultTable arm_network_table(const ArmRecord& arm) {
  std::vector<LayerPass> rows;
  for (const NetworkLayer& layer : arm.network) {
    if (layer.passes.empty()) rows.push_back({&layer, nullptr});
    for (const NetworkPass& pass : layer.passes) rows.push_back({&layer, &pass});
  }
  return TableOf(rows)
      .words("layer", [](const LayerPass& row) { return row.layer->name; })
      .words("type", [](const LayerPass& row) { return row.layer->type; })
      .words("output", [](const LayerPass& row) { return row.layer->output; })
      .numbers(
          "parameters", [](const LayerPass& row) { return row.layer->parameters; }, format_whole)
      .words("pass", [](const LayerPass& row) { return row.pass ? row.pass->pass : kNotMeasured; })
      .words("implementation",
             [](const LayerPass& row) {
               if (!row.pass) return std::string("nothing to choose");
               return row.pass->implementation + (row.pass->shared ? " (shared)" : "");
             })
      .numbers("workspace",
               [](const LayerPass& row) {
                 return row.pass ? shown(row.pass->workspace_bytes, format_size) : "";
               })
      .words("detail", [](const LayerPass& row) { return row.pass ? row.pass->detail : ""; });
}

}  // namespace duet
