#include "compare/tables.h"

#include <cmath>

#include "compare/table_cells.h"
#include "core/config.h"

namespace duet {
namespace {

// Speedup and verdict of the first arm against each other one. The interval stands beside a single
// pair alone, to save width.
template <class Row, class Ratios>
void add_ratios(const Results& results, Ratios ratios, TableOf<Row>* table) {
  const bool pair = results.arms.size() == 2;
  for (size_t b = 1; b < results.arms.size(); ++b) {
    const auto cell = [&](auto&& text_of) {
      return [&, text_of](const Row& row) {
        const ArmRatio* ratio = ratio_of(std::invoke(ratios, row), {0, b});
        return ratio ? text_of(*ratio) : kNotMeasured;
      };
    };
    table->numbers(pair ? "ratio" : "to " + results.arm_name(b), cell([](const ArmRatio& ratio) {
                     return shown(ratio.speedup, format_speedup);
                   }));
    if (pair) {
      table->numbers("95%", cell([](const ArmRatio& r) { return interval_text(r.low, r.high); }));
    }
    table->words("verdict", cell([](const ArmRatio& ratio) { return ratio.verdict; }));
  }
}

// How near to its limit the worst tensor of an arm is.
std::string worst_text(const MeasuredArm& arm) {
  return arm.is_wrong() ? "WRONG" : shown(arm.worst_share(), format_share);
}

std::string layers_text(const Results& results, const LayersSection& batch) {
  std::string text;
  std::vector<RowPart> all = arms_of(results, batch), layers;
  for (const RowPart& part : all) {
    for (const FoundFault& fault : part.arm->faults) {
      text += "WRONG: " + part.layer + " " + part.pass + " " + implementation_text(*part.arm) +
              ": " + fault.text + "\n";
    }
  }
  for (size_t i = 1; i < all.size(); ++i) {  // rows are named once
    if (all[i].row == all[i - 1].row) all[i].layer = all[i].pass = "";
  }
  for (const RowPart& part : all) {
    if (part.arm->agrees) layers.push_back(part);  // not the gather, the update
  }
  if (batch.rows.empty()) return text;
  // Times of all arms beside each other; then how near each is to the machine's limits, and to its
  // own limit of error.
  TableOf<ComparedRow> times(batch.rows);
  times.words("layer", &ComparedRow::layer).words("pass", &ComparedRow::pass);
  for (size_t i = 0; i < results.arms.size(); ++i) {
    times.numbers(results.arm_name(i) + " us", [&](const ComparedRow& row) {
      return row.arm(i) ? row.arm(i)->us.median : kUnknown;
    });
  }
  add_ratios(results, &ComparedRow::ratios, &times);
  times.numbers("floor us", &ComparedRow::floor_us);
  TableOf<RowPart> rates(all), details(layers);
  for (TableOf<RowPart>* table : {&rates, &details}) {
    table->words("layer", &RowPart::layer).words("pass", &RowPart::pass);
    table->words("arm", &RowPart::arm_name);
  }
  rates.numbers("us", of_arm(&MeasuredArm::us))
      .numbers("p20", of_arm([](const MeasuredArm& arm) { return arm.us.p20; }))
      .numbers("p80", of_arm([](const MeasuredArm& arm) { return arm.us.p80; }))
      .numbers("cold us", of_arm(&MeasuredArm::cold_us))
      .numbers("in net us", of_arm(&MeasuredArm::in_network_us))
      .numbers("GFLOP/s", of_arm(&MeasuredArm::gflop_per_s))
      .numbers("GB/s", of_arm(&MeasuredArm::gb_per_s))
      .numbers("of floor", of_arm(&MeasuredArm::share_of_floor), format_share);
  details.words("implementation", of_arm(implementation_text))
      .numbers("error, of limit", of_arm(worst_text))
      .numbers("workspace", of_arm(&MeasuredArm::workspace_bytes), format_size)
      .words("detail", of_arm(&MeasuredArm::detail));
  return text + console_text(times) + "\n" + console_text(rates) + "\n" + console_text(details);
}

std::string totals_text(const Results& results, const LayersSection& batch) {
  return console_text(
      TableOf(batch.totals)
          .words("arm", [&](const ArmTotal& total) { return results.arm_name(total.arm); })
          .numbers("step us", &ArmTotal::step_us)
          .numbers("sum us", &ArmTotal::sum_us)
          .numbers("in net us", &ArmTotal::in_network_sum_us)
          .numbers("gap us", &ArmTotal::gap_us)
          .numbers("prepare", &ArmTotal::prepare_s, format_seconds)
          .numbers("memory", &ArmTotal::memory_bytes, format_size));
}

double first_of(const std::vector<double>& values) {
  return values.empty() ? kUnknown : values.front();
}
double last_of(const std::vector<double>& values) {
  return values.empty() ? kUnknown : values.back();
}

std::string two_decimals(double value) {
  std::string text = format_accuracy(value);
  text.pop_back();
  return text;
}

std::string accuracies_text(const TrainedArm& arm) {
  std::vector<std::string> texts;
  for (double value : arm.accuracy) texts.push_back(shown(value, two_decimals));
  return join(texts, " ");
}

std::string training_text(const Results& results, const TrainingSection& training) {
  const std::string arms = console_text(
      TableOf(training.arms)
          .words("arm", [&](const TrainedArm& arm) { return results.arm_name(arm.arm); })
          .numbers("step us", &TrainedArm::step_us)
          .numbers("images/s", &TrainedArm::images_per_second, format_whole)
          .numbers("memory", &TrainedArm::peak_memory_bytes, format_size)
          .numbers("prepare", &TrainedArm::prepare_s, format_seconds)
          .numbers("first loss", [](const TrainedArm& arm) { return first_of(arm.loss); })
          .numbers("last loss", [](const TrainedArm& arm) { return last_of(arm.loss); })
          .words("accuracy by seed, %", accuracies_text));
  const std::string pairs = console_text(
      TableOf(training.differences)
          .words(
              "arms",
              [&](const auto& d) { return results.arm_name(d.a) + " - " + results.arm_name(d.b); })
          .numbers("loss apart, first 10", &TrainingDifference::first_10_max, format_error)
          .numbers("of the loss", &TrainingDifference::first_10_share, format_share)
          .numbers(
              "at the end", [](const auto& d) { return last_of(d.loss); }, format_error)
          .numbers("accuracy apart, points", &TrainingDifference::accuracy_mean_difference,
                   two_decimals)
          .numbers("95%",
                   [](const TrainingDifference& d) {
                     return std::isnan(d.low)
                                ? kNotMeasured
                                : two_decimals(d.low) + " to " + shown(d.high, two_decimals);
                   })
          .words("verdict", &TrainingDifference::verdict));
  return arms + (arms.empty() || pairs.empty() ? "" : "\n" + pairs);
}

std::string throughput_text(const Results& results, const StepKind& kind) {
  TableOf<ThroughputRow> table(results.throughput);
  table.numbers("batch", &ThroughputRow::batch, format_whole);
  for (size_t i = 0; i < results.arms.size(); ++i) {
    const auto speed = [&](const ThroughputRow& row) {
      return i < row.arms.size() ? row.arms[i].*kind.speed : StepSpeed{};
    };
    table.numbers(results.arm_name(i) + " us", [&](const auto& row) { return speed(row).us; });
    table.numbers(
        "images/s", [&](const auto& row) { return speed(row).images_per_s; }, format_whole);
  }
  add_ratios(results, kind.ratios, &table);
  return console_text(table);
}

// Why rows of throughput are empty: the first line of each arm's reason.
std::string missing_text(const Results& results) {
  std::string text;
  for (const ThroughputRow& row : results.throughput) {
    for (const ThroughputArm& arm : row.arms) {
      if (arm.error.empty()) continue;
      const size_t end = arm.error.find('\n');
      text += "batch " + shown(row.batch, format_whole) + ", " + results.arm_name(arm.arm) + ": " +
              arm.error.substr(0, end) + (end == std::string::npos ? "" : " ...") + "\n";
    }
  }
  return text;
}

std::string about(const Results& results) {
  std::vector<std::string> arms;
  for (const ArmRecord& arm : results.arms) arms.push_back(arm.name);
  std::string text = results.name + ": " + join(arms, " against ");
  if (!results.math.empty()) text += ", " + results.math;
  const std::string& where = results.environment.device();
  if (!where.empty()) text += ", " + where;
  return text + (results.quick ? ", quick\n" : "\n");
}

}  // namespace

std::string results_text(const Results& results) {
  std::string text = stopped_text(results);
  if (!text.empty()) text = "STOPPED before its end: " + text + "\n";
  if (const auto& first = results.summary.first_mismatch) {
    const std::string where = first->layer.empty() ? "" : first->layer + " " + first->pass + ", ";
    text += "MISMATCH first in " + where + first->arm + ": " + first->text + "\n";
  }
  for (const std::string& line : results.summary.headlines) text += line + "\n";
  text += about(results);
  for (const std::string& part : results.left_out) text += "--quick: " + part + "\n";
  const auto section = [&](const std::string& title, const std::string& body) {
    if (!body.empty()) text += "\n" + title + "\n" + body;
  };
  for (const LayersSection& batch : results.layers) {
    const std::string of = ", batch " + shown(batch.batch, format_whole);
    section("layers" + of, layers_text(results, batch));
    section("the whole step" + of, totals_text(results, batch));
  }
  if (const auto& training = results.training) {
    section("training, batch " + shown(training->batch, format_whole) + ", epochs " +
                shown(training->epochs, format_whole),
            training_text(results, *training));
  }
  for (const StepKind& kind : {kTrainingSteps, kInferenceSteps}) {
    section(std::string("throughput in ") + kind.name, throughput_text(results, kind));
  }
  section("not measured", missing_text(results));
  if (!std::isnan(results.seconds)) {
    text += "\nmeasured in " + format_seconds(results.seconds) + "\n";
  }
  return text;
}

}  // namespace duet
