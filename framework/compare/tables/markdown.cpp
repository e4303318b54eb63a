#include "compare/tables/markdown.h"

#include "compare/fairness.h"

#include "compare/tables/result_tables.h"
#include "compare/tables/table_cells.h"

namespace duet {

namespace {

// In backticks, which the text may hold itself.
std::string code(const std::string& text) {
  std::string line, fence = "`";
  for (const char letter : text) line += letter == '\n' || letter == '\r' ? ' ' : letter;
  while (line.find(fence) != std::string::npos) fence += '`';
  const std::string blank = line.find('`') == std::string::npos ? "" : " ";
  return fence + blank + line + blank + fence;
}

// A heading and its table, or nothing if that has no rows.
std::string section(const std::string& heading, const ResultTable& table) {
  return table.rows.empty() ? "" : heading + "\n\n" + markdown_table(table) + "\n";
}

std::string headlines(const ResultsSummary& summary) {
  std::string text;
  if (const auto& mismatch = summary.first_mismatch) {
    text += "**First mismatch:** " + markdown_text(mismatch->text) + "\n\n";
  }
  for (const std::string& line : summary.headlines) text += "- " + markdown_text(line) + "\n";
  return text.empty() ? "" : text + "\n";
}

std::string layers(const Results& results) {
  std::string text;
  for (const LayersSection& batch : results.layers) {
    const std::string size = batch_text(batch.batch);
    text += section("## Layers, batch " + size, layer_table(results, batch));
    text += section("### Largest errors, batch " + size, worst_error_table(results, batch));
    text += section("### The whole step, batch " + size, totals_table(results, batch));
    if (!batch.step_ratios.empty()) {
      text += markdown_table(ratio_table(results, batch.step_ratios)) + "\n";
    }
  }
  return text;
}

}  // namespace

std::string results_markdown(const Results& results) {
  std::string text =
      "# Comparison" + (results.name.empty() ? "" : " of " + markdown_text(results.name)) + "\n\n";
  const std::string stopped = stopped_text(results);
  if (!stopped.empty()) text += "**Stopped before its end:** " + markdown_text(stopped) + "\n\n";
  text += headlines(results.summary);
  text += section("## What is wrong", fault_table(results));
  text += layers(results);
  text += section("## Training", training_table(results));
  text += section("### Differences", difference_table(results));
  text += section("### By seed", seed_table(results));
  text += section("## Throughput of training", throughput_table(results, kTrainingSteps));
  text += section("## Throughput of inference\n\nOf " + inference_words(results) + ".",
                  throughput_table(results, kInferenceSteps));
  text += section("### What could not run", not_run_table(results));
  text += section("## The machine and the run", environment_table(results));
  if (!results.command.empty()) text += "Repeat it: " + code(results.command) + "\n";
  while (text.size() > 1 && text[text.size() - 2] == '\n') text.pop_back();
  return text;
}

std::string results_summary(const Results& results) {
  std::string text;
  for (const LayersSection& batch : results.layers) {
    text += markdown_table(layer_table(results, batch)) + "\n";
    text += markdown_table(totals_table(results, batch)) + "\n";
  }
  const EnvironmentRecord& environment = results.environment;
  std::vector<std::string> lines = fairness_lines(results);
  for (std::string& line : version_warnings(environment.machine.versions)) {
    lines.push_back(std::move(line));
  }
  for (const std::string& line : lines) text += "- " + markdown_text(line) + "\n";
  if (!lines.empty()) text += "\n";
  text += markdown_text(environment.device()) + ", " + markdown_text(results.math) + ", Duet " +
          markdown_text(environment.duet) + ", " + results.date + ": " + code(results.command) +
          "\n";
  return text;
}

}  // namespace duet
