#include "compare/text_table.h"

#include <algorithm>

#include "compare/format.h"

namespace duet {
namespace {

constexpr size_t kWidest = 200;  // a cell that is longer pushes the others of its row aside

bool has_content(const ResultTable& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return !row[column].text.empty() && row[column].text != kNotMeasured;
  });
}

}  // namespace

std::string table_text(const ResultTable& table) {
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

}  // namespace duet
