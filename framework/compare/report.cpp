#include "compare/report.h"

#include <map>
#include <nlohmann/json.hpp>

#include "compare/report_parts.h"
#include "compare/result_tables.h"
#include "compare/results_json.h"
#include "compare/table_cells.h"
#include "core/error.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;

namespace {

json figures_json(const Results& results) {
  json all = json::array();
  for (const Figure& figure : key_figures(results)) {
    all.push_back({{"label", figure.label},
                   {"value", figure.value},
                   {"note", figure.note},
                   {"tone", tone_name(figure.tone)}});
  }
  return all;
}

json layers_json(const Results& results) {
  json all = json::array();
  for (const LayersSection& batch : results.layers) {
    all.push_back({{"layers", table_json(layer_table(results, batch))},
                   {"rates", table_json(rate_table(results, batch))},
                   {"implementations", table_json(implementation_table(results, batch))},
                   {"errors", table_json(error_table(results, batch))},
                   {"worst_errors", table_json(worst_error_table(results, batch))},
                   {"error_ratios", table_json(error_ratio_table(results, batch))},
                   {"roofline", table_json(roofline_table(results, batch))},
                   {"totals", table_json(totals_table(results, batch))},
                   {"step_ratios", table_json(ratio_table(results, batch.step_ratios))},
                   {"repeat", table_json(repeat_table(batch))}});
  }
  return all;
}

// Everything that the page's tables say, written here so that it reads as in every other output.
json tables_json(const Results& results) {
  json arms = json::array(), networks = json::array();
  for (const ArmRecord& arm : results.arms) {
    arms.push_back(arm.name);
    networks.push_back(table_json(arm_network_table(arm)));
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
           {{"training", table_json(throughput_table(results, kTrainingSteps))},
            {"inference", table_json(throughput_table(results, kInferenceSteps))},
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

// `text` with each letter of `letters` replaced by its `escapes`.
std::string escape(const std::string& text, std::string_view letters,
                   const std::vector<std::string>& escapes) {
  std::string escaped;
  for (const char letter : text) {
    const size_t place = letters.find(letter);
    escaped += place == std::string_view::npos ? std::string(1, letter) : escapes[place];
  }
  return escaped;
}

}  // namespace

bool report_available() { return !kChartLibrary.empty(); }

std::string html_text(const std::string& text) {
  return escape(text, "&<>\"'", {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"});
}

// In JSON these letters stand only within strings, where an escape means the same.
std::string script_json(const json& value) {
  return escape(json_text(value), "<>&", {"\\u003c", "\\u003e", "\\u0026"});
}

std::string report_html(const Results& results) { return report_html(results, kChartLibrary); }

std::string report_html(const Results& results, std::string_view chart_library) {
  if (chart_library.empty()) {
    throw RunError(
        "this build has no chart library, so it cannot write a report. Write the results with "
        "--out FILE and make the report on a machine that has one: compare --from FILE --report "
        "FILE.html. Or install Chart.js 3 here (Debian, Ubuntu: apt-get install libjs-chart.js), "
        "configure again and build.");
  }
  const std::string& name = results.name;
  return fill(
      kReportPage,
      {{"title", html_text(name.empty() ? "comparison" : name)},
       {"style", std::string(kReportStyle)},
       {"results", script_json({{"results", to_json(results)}, {"tables", tables_json(results)}})},
       {"licence", std::string(kReportLicence)},
       {"chart_library", std::string(chart_library)},
       {"script", std::string(kReportScript)}});
}

}  // namespace duet
