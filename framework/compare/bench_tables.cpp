#include "compare/bench_tables.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compare/fields.h"
#include "compare/format.h"
#include "compare/table_cells.h"
#include "compare/text_table.h"
#include "core/config.h"

namespace duet {

using nlohmann::json;

namespace {

// The largest share of its limit that any tensor of the arm uses.
std::string agreement_text(const json& arm) {
  if (!is_true(arm, "agrees")) return text_at(element(member(arm, "faults"), 0), "kind");
  double share = 0;
  for (const json& tensor : list(member(arm, "tensors"))) {
    share = std::max(share, number_at(tensor, "share_of_limit").value_or(0));
  }
  return "ok " + format_share(share);
}

const json& ratio_of(const json& row, size_t arm) {
  static const json null;
  for (const json& ratio : list(member(row, "ratios"))) {
    if (number_at(ratio, "a") == static_cast<double>(arm)) return ratio;
  }
  return null;
}

std::string baseline_name(const json& row) {
  const auto baseline = count_at(row, "baseline");
  if (!baseline) return "baseline";
  return text_at(element(member(row, "arms"), baseline), "implementation");
}

std::string median(const json& time) {
  return shown(number_at(time, "median"), format_significant);
}

std::string percent(const json& ratio, const char* key) {
  const auto value = number_at(ratio, key);
  if (!value) return kNotMeasured;
  std::string text = format_share(*value);
  text.pop_back();
  return text;
}

std::string head(const json& row) {
  std::string text = text_at(row, "layer");
  if (!text.empty()) text += ": ";
  text += text_at(row, "type") + " " + text_at(row, "pass") + "\n" + text_at(row, "problem") + "\n";
  const double flops = number_at(row, "flops").value_or(0);
  text += "floor " + shown(number_at(row, "floor_us"), format_time) + ": ";
  if (flops > 0) text += format_significant(flops / 1e6) + " MFLOP, ";
  return text + format_size(number_at(row, "bytes").value_or(0)) + "\n";
}

// A row for each problem, a column for each implementation; the fastest is named at the end.
ResultTable scan_table(const std::vector<const json*>& rows) {
  std::vector<std::string> ids;
  for (const json* row : rows) {
    for (const json& arm : list(member(*row, "arms"))) {
      const std::string id = text_at(arm, "implementation");
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  ResultTable table{{{"problem", false}}, {}};
  for (const std::string& id : ids) table.columns.push_back({id});
  table.columns.push_back({"floor"});
  table.columns.push_back({"fastest", false});
  for (const json* row : rows) {
    std::vector<Cell> cells = {{shape_of(*row)}};
    const json& arms = list(member(*row, "arms"));
    for (const std::string& id : ids) {
      const auto arm = std::find_if(arms.begin(), arms.end(), [&](const json& each) {
        return text_at(each, "implementation") == id;
      });
      cells.push_back({arm == arms.end()         ? kNotMeasured
                       : is_true(*arm, "agrees") ? median(member(*arm, "us"))
                                                 : "wrong"});
    }
    cells.push_back({shown(number_at(*row, "floor_us"), format_significant)});
    const json& fastest = element(member(*row, "arms"), 0);
    cells.push_back({is_true(fastest, "agrees") ? text_at(fastest, "implementation") : ""});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

// "implementation: why", a line each.
std::string notes(const std::string& title,
                  const std::vector<std::pair<std::string, std::string>>& lines) {
  if (lines.empty()) return "";
  std::string text = title + "\n";
  for (const auto& [who, why] : lines) {
    std::string indented = why;
    for (size_t at = 0; (at = indented.find('\n', at)) != std::string::npos; at += 5) {
      indented.replace(at, 1, "\n    ");
    }
    text += "  " + who + ": " + indented + "\n";
  }
  return text;
}

}  // namespace

std::string shape_of(const json& row) {
  std::istringstream words(text_at(row, "repeat"));
  for (std::string word; words >> word;) {
    if (word == "--shape" && words >> word) return word;
  }
  return text_at(row, "problem");
}

ResultTable bench_row_table(const json& row) {
  const std::string baseline = baseline_name(row);
  ResultTable table{{{"implementation", false},
                     {"agreement", false},
                     {"us"},
                     {"p20 to p80"},
                     {"cold us"},
                     {"% of " + baseline},
                     {"95%"},
                     {"verdict", false},
                     {"% of floor"},
                     {"GFLOP/s"},
                     {"GB/s"},
                     {"workspace"},
                     {"detail", false}},
                    {}};
  const json& arms = list(member(row, "arms"));
  for (size_t i = 0; i < arms.size(); ++i) {
    const json& arm = arms[i];
    if (!member(arm, "us").is_object()) continue;
    const json& ratio = ratio_of(row, i);
    const bool is_baseline = number_at(row, "baseline") == static_cast<double>(i);
    const auto workspace = number_at(arm, "workspace_bytes");
    table.rows.push_back(
        {{text_at(arm, "implementation")},
         {agreement_text(arm)},
         {median(member(arm, "us"))},
         {spread(member(arm, "us"))},
         {median(member(arm, "cold_us"))},
         {is_baseline ? "100" : percent(ratio, "speedup")},
         {ratio.is_null() ? kNotMeasured : percent(ratio, "low") + " to " + percent(ratio, "high")},
         is_baseline ? Cell{kNotMeasured} : verdict_cell(ratio),
         {percent(arm, "share_of_floor")},
         {shown(number_at(arm, "gflop_per_s"), format_significant)},
         {shown(number_at(arm, "gb_per_s"), format_significant)},
         {workspace.value_or(0) > 0 ? format_size(*workspace) : kNotMeasured},
         {text_at(arm, "detail")}});
  }
  return table;
}

std::string bench_row_text(const json& row) {
  std::string text = head(row);
  const ResultTable table = bench_row_table(row);
  if (!table.rows.empty()) text += table_text(table);
  std::vector<std::pair<std::string, std::string>> wrong, unable;
  for (const json& arm : list(member(row, "arms"))) {
    for (const json& fault : list(member(arm, "faults"))) {
      wrong.emplace_back(text_at(arm, "implementation") + ": " + text_at(fault, "kind"),
                         text_at(fault, "text"));
    }
  }
  for (const json& arm : list(member(row, "unsupported"))) {
    unable.emplace_back(text_at(arm, "implementation"), text_at(arm, "reason"));
  }
  text += notes("wrong, and not timed:", wrong) + notes("cannot do this:", unable);
  return text + "again: " + text_at(row, "repeat") + "\n";
}

std::string bench_scan_text(const json& results) {
  std::map<std::pair<std::string, std::string>, std::vector<const json*>> by_pass;
  std::vector<std::pair<std::string, std::string>> order;
  for (const json& row : list(member(results, "rows"))) {
    const auto key = std::pair(text_at(row, "type"), text_at(row, "pass"));
    if (by_pass[key].empty()) order.push_back(key);
    by_pass[key].push_back(&row);
  }
  std::string text;
  for (const auto& key : order) {
    if (by_pass[key].size() < 2) continue;
    text += key.first + " " + key.second + ", us\n" + table_text(scan_table(by_pass[key])) + "\n";
  }
  return text;
}

std::string bench_faults_text(const json& results) {
  std::vector<std::string> lines;
  for (const json& row : list(member(results, "rows"))) {
    for (const json& arm : list(member(row, "arms"))) {
      if (is_true(arm, "agrees")) continue;
      lines.push_back(text_at(row, "type") + " " + text_at(row, "pass") + " " +
                      text_at(arm, "implementation") + " (" + agreement_text(arm) + ")");
    }
  }
  if (lines.empty()) return "";
  return "wrong: " + join(lines);
}

}  // namespace duet
