#include "compare/report/report.h"

#include <nlohmann/json.hpp>

#include "compare/report/report_page.h"
#include "compare/report/report_parts.h"
#include "compare/results/results_json.h"
#include "compare/tables/result_tables.h"
#include "compare/tables/table_cells.h"

namespace duet {

using nlohmann::json;

namespace {

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
          {"figures", figures_json(key_figures(results))},
          {"faults", table_json(fault_table(results))},
          {"layers", layers_json(results)},
          {"training", table_json(training_table(results))},
          {"seeds", table_json(seed_table(results))},
          {"differences", table_json(difference_table(results))},
          {"loss", table_json(loss_table(results))},
          {"throughput",
           {{"training", table_json(throughput_table(results, kTrainingSteps))},
            {"inference", table_json(throughput_table(results, kInferenceSteps))},
            {"inference_words", inference_words(results)},
            {"not_run", table_json(not_run_table(results))}}},
          {"environment", table_json(environment_table(results))}};
}

}  // namespace

std::string report_html(const Results& results) { return report_html(results, kChartLibrary); }

std::string report_html(const Results& results, std::string_view chart_library) {
  return page_html({.kind = "Duet comparison",
                    .title = results.name.empty() ? "comparison" : results.name,
                    .sections = kComparisonSections,
                    .script = kComparisonScript,
                    .data = {{"results", to_json(results)}, {"tables", tables_json(results)}},
                    .elsewhere = "Write the results with --out FILE and make the report on a "
                                 "machine that has one: compare --from FILE --report FILE.html."},
                   chart_library);
}

}  // namespace duet
