#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "compare/fields.h"
#include "compare/format.h"
#include "compare/result_tables.h"
#include "compare/table_cells.h"

namespace duet {

using nlohmann::json;

namespace {

bool is_wrong(const json& arm) {
  const json& agrees = member(arm, "agrees");
  return agrees.is_boolean() && !agrees.get<bool>();
}

// Time of a pass, or why there is none.
Cell time_cell(const json& arm) {
  if (arm.is_null()) return {kNotMeasured};
  if (is_wrong(arm)) return {"wrong", Tone::kBad};
  return {shown(number_at(member(arm, "us"), "median"), format_significant)};
}

// The microseconds that the first takes less than the second: "18.4", "-0.31".
std::string saved_text(const json& first, const json& second) {
  const auto a = number_at(member(first, "us"), "median"),
             b = number_at(member(second, "us"), "median");
  if (!a || !b || is_wrong(first) || is_wrong(second)) return kNotMeasured;
  return (*b < *a ? "-" : "") + format_significant(std::fabs(*b - *a));
}

std::string implementation_of(const json& arm) {
  std::string id = text_at(arm, "implementation");
  if (id.empty()) return kNotMeasured;
  return is_true(arm, "shared") ? id + " (shared)" : id;
}

// Calls visit(row, index of the arm, arm) for each arm that has this layer.
template <typename Visit>
void each_row_and_arm(const json& batch, Visit visit) {
  for (const json& row : list(member(batch, "rows"))) {
    const json& arms = list(member(row, "arms"));
    for (size_t i = 0; i < arms.size(); ++i) {
      if (!arms[i].is_null()) visit(row, i, arms[i]);
    }
  }
}

std::string intensity(const json& row) {
  const auto flops = number_at(row, "flops"), bytes = number_at(row, "bytes");
  if (!flops || !bytes || *bytes <= 0) return kNotMeasured;
  return format_significant(*flops / *bytes);
}

}  // namespace

ResultTable layer_table(const json& results, const json& batch) {
  const size_t arms = arm_count(results);
  // What is asked first stands first: on a narrow screen the rest has to be scrolled to.
  ResultTable table{{{"layer", false}, {"pass", false}}, {}};
  std::set<ArmPair> pairs;
  for (const json& row : list(member(batch, "rows"))) add_pairs(member(row, "ratios"), &pairs);
  add_ratio_columns(results, pairs, &table);
  for (size_t i = 0; i < arms; ++i) table.columns.push_back({arm_name(results, i) + " µs"});
  if (arms == 2) table.columns.push_back({"saved µs"});
  table.columns.push_back({"floor µs"});
  for (size_t i = 0; i < arms; ++i)
    table.columns.push_back({arm_name(results, i) + ", share of floor"});
  for (const json& row : list(member(batch, "rows"))) {
    std::vector<Cell> cells = {{text_at(row, "layer")}, {text_at(row, "pass")}};
    const json& row_arms = member(row, "arms");
    add_ratio_cells(member(row, "ratios"), pairs, &cells);
    for (size_t i = 0; i < arms; ++i) cells.push_back(time_cell(element(row_arms, i)));
    if (arms == 2) cells.push_back({saved_text(element(row_arms, 0), element(row_arms, 1))});
    cells.push_back({shown(number_at(row, "floor_us"), format_significant)});
    for (size_t i = 0; i < arms; ++i) {
      cells.push_back({shown(number_at(element(row_arms, i), "share_of_floor"), format_share)});
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

ResultTable layer_detail_table(const json& results, const json& batch) {
  ResultTable table{{{"layer", false},
                     {"pass", false},
                     {"arm", false},
                     {"implementation", false},
                     {"detail", false},
                     {"workspace"},
                     {"µs"},
                     {"p20 to p80"},
                     {"cold µs"},
                     {"in network µs"},
                     {"GFLOP/s"},
                     {"GB/s"}},
                    {}};
  each_row_and_arm(batch, [&](const json& row, size_t index, const json& arm) {
    const json& us = member(arm, "us");
    table.rows.push_back({{text_at(row, "layer")},
                          {text_at(row, "pass")},
                          {arm_name(results, index)},
                          {implementation_of(arm)},
                          {text_at(arm, "detail")},
                          {shown(number_at(arm, "workspace_bytes"), format_size)},
                          time_cell(arm),
                          {spread(us)},
                          {shown(number_at(member(arm, "cold_us"), "median"), format_significant)},
                          {shown(number_at(arm, "in_network_us"), format_significant)},
                          {shown(number_at(arm, "gflop_per_s"), format_significant)},
                          {shown(number_at(arm, "gb_per_s"), format_significant)}});
  });
  return table;
}

ResultTable error_table(const json& results, const json& batch) {
  ResultTable table{{{"layer", false},
                     {"pass", false},
                     {"arm", false},
                     {"tensor", false},
                     {"share of limit"},
                     {"max error"},
                     {"RMS-relative"},
                     {"cosine"},
                     {"worst element", false},
                     {"expected"},
                     {"found"},
                     {"limit", false}},
                    {}};
  each_row_and_arm(batch, [&](const json& row, size_t index, const json& arm) {
    for (const json& tensor : list(member(arm, "tensors"))) {
      const auto share = number_at(tensor, "share_of_limit");
      table.rows.push_back(
          {{text_at(row, "layer")},
           {text_at(row, "pass")},
           {arm_name(results, index)},
           {text_at(tensor, "name")},
           // Not `> 1`: a share that is not a number is beyond every limit.
           {shown(share, format_share), share && !(*share <= 1) ? Tone::kBad : Tone::kPlain},
           {shown(number_at(tensor, "max_error"), format_error)},
           {shown(number_at(tensor, "rms_relative"), format_error)},
           {shown(number_at(tensor, "cosine"), format_near_one)},
           {text_at(tensor, "worst")},
           {shown(number_at(tensor, "expected"), format_value)},
           {shown(number_at(tensor, "found"), format_value)},
           {text_at(tensor, "limit")}});
    }
  });
  return table;
}

ResultTable worst_error_table(const json& results, const json& batch) {
  struct Worst {
    size_t outputs = 0;
    double share = -1;
    std::vector<Cell> cells;
  };
  std::vector<Worst> of_arm(arm_count(results));
  each_row_and_arm(batch, [&](const json& row, size_t index, const json& arm) {
    for (const json& tensor : list(member(arm, "tensors"))) {
      Worst& worst = of_arm[index];
      ++worst.outputs;
      const auto share = number_at(tensor, "share_of_limit");
      if (!share || *share <= worst.share) continue;
      worst.share = *share;
      worst.cells = {{format_share(*share), *share <= 1 ? Tone::kPlain : Tone::kBad},
                     {text_at(row, "layer") + " " + text_at(row, "pass")},
                     {text_at(tensor, "name")},
                     {shown(number_at(tensor, "rms_relative"), format_error)},
                     {shown(number_at(tensor, "max_error"), format_error)}};
    }
  });
  ResultTable table{{{"arm", false},
                     {"outputs checked"},
                     {"largest share of limit"},
                     {"in", false},
                     {"tensor", false},
                     {"RMS-relative"},
                     {"max error"}},
                    {}};
  for (size_t i = 0; i < of_arm.size(); ++i) {
    if (of_arm[i].cells.empty()) continue;
    std::vector<Cell> cells = {{arm_name(results, i)}, {std::to_string(of_arm[i].outputs)}};
    cells.insert(cells.end(), of_arm[i].cells.begin(), of_arm[i].cells.end());
    table.rows.push_back(std::move(cells));
  }
  return table;
}

ResultTable error_ratio_table(const json& results, const json& batch) {
  ResultTable table{{{"layer", false},
                     {"pass", false},
                     {"arm", false},
                     {"against", false},
                     {"error ratio"},
                     {"within the rule", false}},
                    {}};
  for (const json& row : list(member(batch, "rows"))) {
    const json& ratio = member(row, "error_ratio");
    const auto value = number_at(ratio, "value");
    if (!value) continue;
    const bool ok = is_true(ratio, "ok");
    table.rows.push_back({{text_at(row, "layer")},
                          {text_at(row, "pass")},
                          {arm_of(results, ratio, "a")},
                          {arm_of(results, ratio, "b")},
                          {format_significant(*value)},
                          {ok ? "yes" : "no", ok ? Tone::kPlain : Tone::kBad}});
  }
  return table;
}

ResultTable roofline_table(const json& results, const json& batch) {
  const size_t arms = arm_count(results);
  ResultTable table{{{"layer", false}, {"pass", false}, {"FLOP/byte"}}, {}};
  for (size_t i = 0; i < arms; ++i) table.columns.push_back({arm_name(results, i) + " GFLOP/s"});
  for (size_t i = 0; i < arms; ++i) table.columns.push_back({arm_name(results, i) + " GB/s"});
  for (const json& row : list(member(batch, "rows"))) {
    if (number_at(row, "flops").value_or(0) <= 0) continue;
    std::vector<Cell> cells = {{text_at(row, "layer")}, {text_at(row, "pass")}, {intensity(row)}};
    for (const char* rate : {"gflop_per_s", "gb_per_s"}) {
      for (size_t i = 0; i < arms; ++i) {
        const json& arm = element(member(row, "arms"), i);
        cells.push_back({shown(number_at(arm, rate), format_significant)});
      }
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

ResultTable totals_table(const json& results, const json& batch) {
  ResultTable table{{{"arm", false},
                     {"step µs"},
                     {"p20 to p80"},
                     {"sum of rows µs"},
                     {"sum in network µs"},
                     {"gap µs"},
                     {"prepare"},
                     {"memory"}},
                    {}};
  for (const json& total : list(member(batch, "totals"))) {
    const json& step = member(total, "step_us");
    table.rows.push_back({{arm_of(results, total, "arm")},
                          {shown(number_at(step, "median"), format_significant)},
                          {spread(step)},
                          {shown(number_at(total, "sum_us"), format_significant)},
                          {shown(number_at(total, "in_network_sum_us"), format_significant)},
                          {shown(number_at(total, "gap_us"), format_significant)},
                          {shown(number_at(total, "prepare_s"), format_seconds)},
                          {shown(number_at(total, "memory_bytes"), format_size)}});
  }
  return table;
}

ResultTable repeat_table(const json& batch) {
  ResultTable table{{{"layer", false}, {"pass", false}, {"problem", false}, {"command", false}},
                    {}};
  for (const json& row : list(member(batch, "rows"))) {
    table.rows.push_back({{text_at(row, "layer")},
                          {text_at(row, "pass")},
                          {text_at(row, "problem")},
                          {text_at(row, "repeat")}});
  }
  return table;
}

ResultTable fault_table(const json& results) {
  ResultTable table{
      {{"batch"}, {"layer", false}, {"pass", false}, {"arm", false}, {"what is wrong", false}}, {}};
  for (const json& batch : list(member(results, "layers"))) {
    each_row_and_arm(batch, [&](const json& row, size_t index, const json& arm) {
      for (const json& fault : list(member(arm, "faults"))) {
        table.rows.push_back({{batch_text(batch)},
                              {text_at(row, "layer")},
                              {text_at(row, "pass")},
                              {arm_name(results, index)},
                              {text_at(fault, "text"), Tone::kBad}});
      }
    });
  }
  return table;
}

}  // namespace duet
