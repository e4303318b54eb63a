#include "compare/tables/tables.h"

#include <cmath>

#include "compare/tables/result_tables.h"
#include "compare/tables/table_cells.h"
#include "core/config.h"

namespace duet {
namespace {

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
  const auto section = [&](const std::string& title, const std::vector<ResultTable>& tables) {
    std::string body;
    for (const ResultTable& table : tables) {
      const std::string rows = console_text(table);
      body += (rows.empty() ? "" : "\n") + rows;
    }
    if (!body.empty()) text += "\n" + title + body;
  };
  section("what is wrong", {fault_table(results)});
  for (const LayersSection& batch : results.layers) {
    const std::string of = ", batch " + shown(batch.batch, format_whole);
    section("layers" + of, {layer_table(results, batch), rate_table(results, batch),
                            implementation_table(results, batch)});
    section("the whole step" + of,
            {totals_table(results, batch), ratio_table(results, batch.step_ratios)});
  }
  if (const auto& training = results.training) {
    section("training, batch " + shown(training->batch, format_whole) + ", epochs " +
                shown(training->epochs, format_whole),
            {training_table(results), difference_table(results), seed_table(results)});
  }
  section("throughput in training", {throughput_table(results, kTrainingSteps)});
  section("throughput in inference: " + inference_words(results),
          {throughput_table(results, kInferenceSteps)});
  section("not measured", {not_run_table(results)});
  if (!std::isnan(results.seconds)) {
    text += "\nmeasured in " + format_seconds(results.seconds) + "\n";
  }
  return text;
}

}  // namespace duet
