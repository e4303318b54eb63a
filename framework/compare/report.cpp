#include "compare/report.h"

#include <map>
#include <nlohmann/json.hpp>

#include "compare/fields.h"
#include "compare/report_parts.h"
#include "compare/result_tables.h"
#include "core/error.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;

namespace {

const char* tone_name(Tone tone) {
  switch (tone) {
    case Tone::kGood:
      return "good";
    case Tone::kBad:
      return "bad";
    case Tone::kPlain:
      break;
  }
  return "";
}

json table_json(const ResultTable& table) {
  json columns = json::array(), rows = json::array();
  for (const Column& column : table.columns) {
    columns.push_back({{"name", column.name}, {"number", column.number}});
  }
  for (const auto& row : table.rows) {
    json cells = json::array();
    for (const Cell& cell : row) {
      json one = {{"text", cell.text}};
      if (cell.tone != Tone::kPlain) one["tone"] = tone_name(cell.tone);
      cells.push_back(std::move(one));
    }
    rows.push_back(std::move(cells));
  }
  return {{"columns", columns}, {"rows", rows}};
}

json figures_json(const json& results) {
  json all = json::array();
  for (const Figure& figure : key_figures(results)) {
    all.push_back({{"label", figure.label},
                   {"value", figure.value},
                   {"note", figure.note},
                   {"tone", tone_name(figure.tone)}});
  }
  return all;
}

json layers_json(const json& results) {
  json all = json::array();
  for (const json& batch : list(member(results, "layers"))) {
    all.push_back({{"layers", table_json(layer_table(results, batch))},
                   {"details", table_json(layer_detail_table(results, batch))},
                   {"errors", table_json(error_table(results, batch))},
                   {"worst_errors", table_json(worst_error_table(results, batch))},
                   {"error_ratios", table_json(error_ratio_table(results, batch))},
                   {"roofline", table_json(roofline_table(results, batch))},
                   {"totals", table_json(totals_table(results, batch))},
                   {"step_ratios", table_json(ratio_table(results, member(batch, "step_ratios")))},
                   {"repeat", table_json(repeat_table(batch))}});
  }
  return all;
}

// Everything that the page's tables say, written here so that it reads as in every other output.
json tables_json(const json& results) {
  json arms = json::array(), networks = json::array();
  for (size_t i = 0; i < arm_count(results); ++i) {
    arms.push_back(arm_name(results, i));
    networks.push_back(table_json(arm_network_table(element(member(results, "arms"), i))));
  }
  return {{"arms", arms},
          {"networks", networks},
          {"stopped", stopped_text(results)},
          {"figures", figures_json(results)},
          {"faults", table_json(fault_table(results))},
          {"layers", layers_json(results)},
          {"training", table_json(training_table(results))},
          {"seeds", table_json(seed_table(results))},
          {"differences", table_json(difference_table(results))},
          {"loss", table_json(loss_table(results))},
          {"throughput",
           {{"training", table_json(throughput_table(results, "training"))},
            {"inference", table_json(throughput_table(results, "inference"))},
            {"not_run", table_json(not_run_table(results))}}},
          {"environment", table_json(environment_table(results))}};
}

// Replaces each {{name}} of the page, once: what is put in is not looked at again.
std::string fill(std::string_view page, const std::map<std::string, std::string>& parts) {
  std::string text;
  while (true) {
    const size_t start = page.find("{{");
    if (start == std::string_view::npos) break;
    const size_t end = page.find("}}", start);
    const std::string name(page.substr(start + 2, end - start - 2));
    text += page.substr(0, start);
    text += parts.at(name);
    page.remove_prefix(end + 2);
  }
  return text + std::string(page);
}

}  // namespace

bool report_available() { return !kChartLibrary.empty(); }

std::string html_text(const std::string& text) {
  std::string escaped;
  for (const char letter : text) {
    switch (letter) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string script_json(const json& value) {
  std::string escaped;
  // In JSON these letters stand only within strings, where an escape means the same.
  for (const char letter : json_text(value)) {
    if (letter == '<') {
      escaped += "\\u003c";
    } else if (letter == '>') {
      escaped += "\\u003e";
    } else if (letter == '&') {
      escaped += "\\u0026";
    } else {
      escaped += letter;
    }
  }
  return escaped;
}

std::string report_html(const json& results) { return report_html(results, kChartLibrary); }

std::string report_html(const json& results, std::string_view chart_library) {
  if (chart_library.empty()) {
    throw RunError(
        "this build has no chart library, so it cannot write a report. Write the results with "
        "--out FILE and make the report on a machine that has one: compare --from FILE --report "
        "FILE.html. Or install Chart.js 3 here (Debian, Ubuntu: apt-get install libjs-chart.js), "
        "configure again and build.");
  }
  const std::string name = text_at(results, "name");
  return fill(kReportPage,
              {{"title", html_text(name.empty() ? "comparison" : name)},
               {"style", std::string(kReportStyle)},
               {"results", script_json({{"results", results}, {"tables", tables_json(results)}})},
               {"licence", std::string(kReportLicence)},
               {"chart_library", std::string(chart_library)},
               {"script", std::string(kReportScript)}});
}

}  // namespace duet
