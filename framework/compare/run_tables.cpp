#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "compare/fields.h"
#include "compare/format.h"
#include "compare/result_tables.h"
#include "compare/table_cells.h"

namespace duet {

using nlohmann::json;

namespace {

std::vector<double> numbers(const json& values) {
  std::vector<double> found;
  for (const json& value : list(values)) {
    if (const auto one = number(value)) found.push_back(*one);
  }
  return found;
}

std::string mean_text(const std::vector<double>& values, std::string (*format)(double)) {
  if (values.empty()) return kNotMeasured;
  return format(std::accumulate(values.begin(), values.end(), 0.0) /
                static_cast<double>(values.size()));
}

std::string range_text(const std::vector<double>& values, std::string (*format)(double)) {
  if (values.size() < 2) return kNotMeasured;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return format(*low) + " to " + format(*high);
}

std::string rate_text(const json& value, const std::string& key) {
  return shown(number_at(value, key), format_whole);
}

// "+0.05" percentage points.
std::string points(double difference) {
  char text[32];
  std::snprintf(text, sizeof text, std::fabs(difference) < 1e13 ? "%+.2f" : "%+.1e",
                100 * difference);
  return text;
}

size_t most_steps(const json& training) {
  size_t steps = 0;
  for (const json& arm : list(member(training, "arms"))) {
    steps = std::max(steps, list(member(arm, "loss")).size());
  }
  return steps;
}

}  // namespace

ResultTable ratio_table(const json& results, const json& ratios) {
  ResultTable table{{{"arm", false}, {"against", false}, {"speedup"}, {"95%"}, {"verdict", false}},
                    {}};
  for (const json& ratio : list(ratios)) {
    const auto low = number_at(ratio, "low"), high = number_at(ratio, "high");
    const std::string spread = spread_of_same_code(ratio);
    table.rows.push_back(
        {{arm_of(results, ratio, "a")},
         {arm_of(results, ratio, "b")},
         {spread.empty() ? shown(number_at(ratio, "speedup"), format_speedup) : "spread " + spread},
         {low && high ? format_interval(*low, *high) : kNotMeasured},
         verdict_cell(ratio)});
  }
  return table;
}

ResultTable training_table(const json& results) {
  ResultTable table{{{"arm", false},
                     {"images/s"},
                     {"step µs"},
                     {"seconds a run"},
                     {"prepare"},
                     {"peak memory"},
                     {"final loss, mean"},
                     {"accuracy, mean"},
                     {"accuracy, range"},
                     {"same bits again", false}},
                    {}};
  const json& arms = list(member(member(results, "training"), "arms"));
  const bool halted = std::any_of(arms.begin(), arms.end(),
                                  [](const json& arm) { return number_at(arm, "halted_at"); });
  if (halted) table.columns.push_back({"halted at step"});
  for (const json& arm : arms) {
    const json& repeats = member(arm, "repeats");
    const auto accuracy = numbers(member(arm, "accuracy"));
    table.rows.push_back(
        {{arm_of(results, arm, "arm")},
         {rate_text(arm, "images_per_second")},
         {shown(number_at(arm, "step_us"), format_significant)},
         {mean_text(numbers(member(arm, "seconds")), format_seconds)},
         {shown(number_at(arm, "prepare_s"), format_seconds)},
         {shown(number_at(arm, "peak_memory_bytes"), format_size)},
         {mean_text(numbers(member(arm, "final_loss")), format_value)},
         {mean_text(accuracy, format_accuracy)},
         {range_text(accuracy, format_accuracy)},
         {repeats.is_boolean() ? repeats.get<bool>() ? "yes" : "no" : kNotMeasured}});
    if (halted) {
      const auto step = number_at(arm, "halted_at");
      table.rows.back().push_back({shown(step, format_whole), step ? Tone::kBad : Tone::kPlain});
    }
  }
  return table;
}

ResultTable seed_table(const json& results) {
  const json& training = member(results, "training");
  const json& seeds = list(member(training, "seeds"));
  ResultTable table{{{"seed"}}, {}};
  for (const json& arm : list(member(training, "arms"))) {
    const std::string name = arm_of(results, arm, "arm");
    for (const char* what : {" accuracy", " final loss"}) table.columns.push_back({name + what});
  }
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::vector<Cell> cells = {{json(seeds[i]).dump()}};
    for (const json& arm : list(member(training, "arms"))) {
      cells.push_back({shown(number(element(member(arm, "accuracy"), i)), format_accuracy)});
      cells.push_back({shown(number(element(member(arm, "final_loss"), i)), format_value)});
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

ResultTable difference_table(const json& results) {
  ResultTable table{{{"arm", false},
                     {"against", false},
                     {"largest |difference| of loss, first 10 steps"},
                     {"of the loss"},
                     {"accuracy difference, points"},
                     {"95%"},
                     {"verdict", false}},
                    {}};
  for (const json& difference : list(member(member(results, "training"), "differences"))) {
    const auto low = number_at(difference, "low"), high = number_at(difference, "high");
    table.rows.push_back({{arm_of(results, difference, "a")},
                          {arm_of(results, difference, "b")},
                          {shown(number_at(difference, "first_10_max"), format_error)},
                          {shown(number_at(difference, "first_10_share"), format_share)},
                          {shown(number_at(difference, "accuracy_mean_difference"), points)},
                          {low && high ? points(*low) + " to " + points(*high) : kNotMeasured},
                          verdict_cell(difference)});
  }
  return table;
}

ResultTable loss_table(const json& results) {
  const json& training = member(results, "training");
  const json& arms = list(member(training, "arms"));
  const json& differences = list(member(training, "differences"));
  ResultTable table{{{"step"}}, {}};
  for (const json& arm : arms) table.columns.push_back({arm_of(results, arm, "arm")});
  for (const json& difference : differences) {
    table.columns.push_back(
        {"|" + arm_of(results, difference, "a") + " - " + arm_of(results, difference, "b") + "|"});
  }
  for (const json& arm : arms) {
    if (member(arm, "repeat_loss").is_array()) {
      table.columns.push_back({"|" + arm_of(results, arm, "arm") + " - its repeat|"});
    }
  }
  for (size_t step = 0; step < most_steps(training); ++step) {
    std::vector<Cell> cells = {{std::to_string(step + 1)}};
    for (const json& arm : arms) {
      cells.push_back({shown(number(element(member(arm, "loss"), step)), format_value)});
    }
    for (const json& difference : differences) {
      cells.push_back({shown(number(element(member(difference, "loss"), step)), format_error)});
    }
    for (const json& arm : arms) {
      if (!member(arm, "repeat_loss").is_array()) continue;
      const auto once = number(element(member(arm, "loss"), step));
      const auto again = number(element(member(arm, "repeat_loss"), step));
      cells.push_back({once && again ? format_error(std::fabs(*once - *again)) : kNotMeasured});
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

ResultTable throughput_table(const json& results, const std::string& what) {
  const json& entries = list(member(results, "throughput"));
  const size_t arms = arm_count(results);
  ResultTable table{{{"batch"}}, {}};
  for (size_t i = 0; i < arms; ++i) {
    table.columns.push_back({arm_name(results, i) + " µs"});
    table.columns.push_back({arm_name(results, i) + " images/s"});
  }
  std::set<ArmPair> pairs;
  for (const json& entry : entries) add_pairs(member(entry, what + "_ratios"), &pairs);
  add_ratio_columns(results, pairs, &table);
  for (const json& entry : entries) {
    std::vector<Cell> cells = {{batch_text(entry)}};
    bool measured = false;
    for (size_t i = 0; i < arms; ++i) {
      const json& all = list(member(entry, "arms"));
      const auto arm = std::find_if(all.begin(), all.end(), [&](const json& candidate) {
        return number_at(candidate, "arm") == static_cast<double>(i);
      });
      const json found = arm == all.end() ? json() : *arm;
      measured |= !member(found, what + "_us").is_null();
      cells.push_back(
          {shown(number_at(member(found, what + "_us"), "median"), format_significant)});
      cells.push_back({rate_text(found, what + "_images_per_s")});
    }
    add_ratio_cells(member(entry, what + "_ratios"), pairs, &cells);
    if (measured) table.rows.push_back(std::move(cells));
  }
  return table;
}

ResultTable not_run_table(const json& results) {
  ResultTable table{{{"batch"}, {"arm", false}, {"why it did not run", false}}, {}};
  for (const json& entry : list(member(results, "throughput"))) {
    for (const json& arm : list(member(entry, "arms"))) {
      const std::string why = text_at(arm, "error");
      if (why.empty()) continue;
      table.rows.push_back({{batch_text(entry)}, {arm_of(results, arm, "arm")}, {why}});
    }
  }
  return table;
}

ResultTable arm_network_table(const json& arm) {
  ResultTable table{{{"layer", false},
                     {"type", false},
                     {"output", false},
                     {"parameters"},
                     {"pass", false},
                     {"implementation", false},
                     {"workspace"},
                     {"detail", false}},
                    {}};
  for (const json& layer : list(member(arm, "network"))) {
    std::vector<Cell> first = {{text_at(layer, "name")},
                               {text_at(layer, "type")},
                               {text_at(layer, "output")},
                               {shown(number_at(layer, "parameters"), format_whole)}};
    const json& passes = list(member(layer, "passes"));
    if (passes.empty()) {
      first.insert(first.end(), {{kNotMeasured}, {"nothing to choose"}, {""}, {""}});
      table.rows.push_back(std::move(first));
      continue;
    }
    for (const json& pass : passes) {
      std::vector<Cell> cells = first;
      const char* const shared = is_true(pass, "shared") ? " (shared)" : "";
      cells.insert(cells.end(), {{text_at(pass, "pass")},
                                 {text_at(pass, "implementation") + shared},
                                 {shown(number_at(pass, "workspace_bytes"), format_size)},
                                 {text_at(pass, "detail")}});
      table.rows.push_back(std::move(cells));
    }
  }
  return table;
}

}  // namespace duet
