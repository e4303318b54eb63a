#include "compare/markdown.h"

#include <cctype>
#include <nlohmann/json.hpp>

#include "compare/fairness.h"
#include "compare/fields.h"
#include "compare/format.h"
#include "compare/result_tables.h"
#include "compare/table_cells.h"

namespace duet {

using nlohmann::json;

namespace {

// In backticks, which the text may hold itself.
std::string code(const std::string& text) {
  std::string line, fence = "`";
  for (const char letter : text) line += letter == '\n' || letter == '\r' ? ' ' : letter;
  while (line.find(fence) != std::string::npos) fence += '`';
  const std::string blank = line.find('`') == std::string::npos ? "" : " ";
  return fence + blank + line + blank + fence;
}

std::string table_text(const ResultTable& table) {
  std::string text = "|", rule = "|";
  for (const Column& column : table.columns) {
    text += " " + markdown_text(column.name) + " |";
    rule += column.number ? "---:|" : "---|";
  }
  text += "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (const Cell& cell : row) {
      const std::string words = markdown_text(cell.text);
      text += cell.tone == Tone::kBad ? " **" + words + "** |" : " " + words + " |";
    }
    text += "\n";
  }
  return text;
}

// A heading and its table, or nothing if that has no rows.
std::string section(const std::string& heading, const ResultTable& table) {
  return table.rows.empty() ? "" : heading + "\n\n" + table_text(table) + "\n";
}

std::string headlines(const json& results) {
  const json& summary = member(results, "summary");
  const json& mismatch = member(summary, "first_mismatch");
  std::string text;
  if (mismatch.is_object()) {
    text += "**First mismatch:** " + markdown_text(text_at(mismatch, "text")) + "\n\n";
  }
  for (const json& line : list(member(summary, "headlines"))) {
    if (line.is_string()) text += "- " + markdown_text(line.get<std::string>()) + "\n";
  }
  return text.empty() ? "" : text + "\n";
}

std::string layers(const json& results) {
  std::string text;
  for (const json& batch : list(member(results, "layers"))) {
    const std::string size = batch_text(batch);
    text += section("## Layers, batch " + size, layer_table(results, batch));
    text += section("### Largest errors, batch " + size, worst_error_table(results, batch));
    text += section("### The whole step, batch " + size, totals_table(results, batch));
    const ResultTable ratios = ratio_table(results, member(batch, "step_ratios"));
    if (!ratios.rows.empty()) text += table_text(ratios) + "\n";
  }
  return text;
}

}  // namespace

std::string markdown_text(const std::string& text) {
  std::string escaped;
  const auto joins = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    // Within a word it is an ordinary letter.
    if (letter == '_' && i > 0 && joins(i - 1) && joins(i + 1)) {
      escaped += letter;
      continue;
    }
    switch (letter) {
      case '\n':
      case '\r':
        escaped += ' ';
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '&':
        escaped += "&amp;";
        break;
      case '|':
      case '\\':
      case '`':
      case '*':
      case '_':
      case '[':
      case ']':
      case '~':
        escaped += '\\';
        [[fallthrough]];
      default:
        escaped += letter;
    }
  }
  return escaped;
}

std::string results_markdown(const json& results) {
  const std::string name = text_at(results, "name");
  std::string text = "# Comparison" + (name.empty() ? "" : " of " + markdown_text(name)) + "\n\n";
  const std::string stopped = stopped_text(results);
  if (!stopped.empty()) text += "**Stopped before its end:** " + markdown_text(stopped) + "\n\n";
  text += headlines(results);
  text += section("## What is wrong", fault_table(results));
  text += layers(results);
  text += section("## Training", training_table(results));
  text += section("### Differences", difference_table(results));
  text += section("### By seed", seed_table(results));
  text += section("## Throughput of training", throughput_table(results, "training"));
  text += section("## Throughput of inference", throughput_table(results, "inference"));
  text += section("### What could not run", not_run_table(results));
  text += section("## The machine and the run", environment_table(results));
  const std::string command = text_at(results, "command");
  if (!command.empty()) text += "Repeat it: " + code(command) + "\n";
  while (text.size() > 1 && text[text.size() - 2] == '\n') text.pop_back();
  return text;
}

std::string results_summary(const json& results) {
  std::string text;
  for (const json& batch : list(member(results, "layers"))) {
    text += table_text(layer_table(results, batch)) + "\n";
    text += table_text(totals_table(results, batch)) + "\n";
  }
  std::vector<std::string> lines = fairness_lines(results);
  for (std::string& line : version_lines(results)) lines.push_back(std::move(line));
  for (const std::string& line : lines) text += "- " + markdown_text(line) + "\n";
  if (!lines.empty()) text += "\n";
  const json& environment = member(results, "environment");
  const std::string gpu = text_at(environment, "gpu");
  text += markdown_text(gpu.empty() ? text_at(environment, "cpu") : gpu) + ", " +
          markdown_text(text_at(results, "math")) + ", Duet " +
          markdown_text(text_at(environment, "duet")) + ", " + text_at(results, "date") + ": " +
          code(text_at(results, "command")) + "\n";
  return text;
}

}  // namespace duet
