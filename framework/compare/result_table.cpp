#include "compare/result_table.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

namespace duet {
namespace {

constexpr size_t kWidest = 200;  // a cell that is longer pushes the others of its row aside

bool has_content(const ResultTable& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return !row[column].text.empty() && row[column].text != kNotMeasured;
  });
}

}  // namespace

std::string console_text(const ResultTable& table) {
  if (table.rows.empty()) return "";
  std::vector<size_t> columns, widths;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    if (!has_content(table, i)) continue;
    columns.push_back(i);
    widths.push_back(table.columns[i].name.size());
    for (const auto& row : table.rows) widths.back() = std::max(widths.back(), row[i].text.size());
    widths.back() = std::min(widths.back(), kWidest);
  }
  std::string text;
  const auto add = [&](const auto& cell_of) {
    std::string line;
    for (size_t j = 0; j < columns.size(); ++j) {
      const std::string& cell = cell_of(columns[j]);
      const std::string space(widths[j] - std::min(widths[j], cell.size()), ' ');
      line += (j ? "  " : "") + (table.columns[columns[j]].number ? space + cell : cell + space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add([&](size_t i) -> const std::string& { return table.columns[i].name; });
  for (const auto& row : table.rows) {
    add([&](size_t i) -> const std::string& { return row[i].text; });
  }
  return text;
}

std::string markdown_table(const ResultTable& table) {
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

std::string markdown_text(const std::string& text) {
  std::string escaped;
  const auto joins = [&](size_t i) {
    return i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]));
  };
  for (size_t i = 0; i < text.size(); ++i) {
    const char letter = text[i];
    const bool within_word = letter == '_' && i > 0 && joins(i - 1) && joins(i + 1);
    if (letter == '\n' || letter == '\r') {
      escaped += ' ';
    } else if (letter == '<') {
      escaped += "&lt;";
    } else if (letter == '>') {
      escaped += "&gt;";
    } else if (letter == '&') {
      escaped += "&amp;";
    } else {
      if (std::string_view("|\\`*_[]~").find(letter) != std::string::npos && !within_word) {
        escaped += '\\';
      }
      escaped += letter;
    }
  }
  return escaped;
}

const char* tone_name(Tone tone) {
  return tone == Tone::kGood ? "good" : tone == Tone::kBad ? "bad" : "";
}

nlohmann::json table_json(const ResultTable& table) {
  auto columns = nlohmann::json::array(), rows = nlohmann::json::array();
  for (const Column& column : table.columns) {
    columns.push_back({{"name", column.name}, {"number", column.number}});
  }
  for (const auto& row : table.rows) {
    auto& cells = rows.emplace_back(nlohmann::json::array());
    for (const Cell& cell : row) {
      cells.push_back({{"text", cell.text}});
      if (cell.tone != Tone::kPlain) cells.back()["tone"] = tone_name(cell.tone);
    }
  }
  return {{"columns", columns}, {"rows", rows}};
}

}  // namespace duet
