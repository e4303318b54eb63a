// A table as text in cells, built once and shown on the console, in Markdown and in the report.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "compare/tables/format.h"

namespace duet {

enum class Tone { kPlain, kGood, kBad };

struct Cell {
  std::string text;
  Tone tone = Tone::kPlain;
};

struct Column {
  std::string name;
  bool number = true;  // numbers stand at the right, words at the left
};

struct ResultTable {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;  // each as long as `columns`
};

/// For a console; numbers are aligned at the right, nothing is wider than it must be, and columns
/// without content are left out. In a table that is too wide long headings take several lines; if
/// that is not enough, it is shown in parts that begin with the same columns. "" without rows.
std::string console_text(const ResultTable& table);
std::string markdown_table(const ResultTable& table);
/// For the report: {"columns": [{"name", "number"}], "rows": [[{"text", "tone"}]]}
nlohmann::json table_json(const ResultTable& table);

/// The text as it reads in Markdown, on one line, also within a table.
std::string markdown_text(const std::string& text);
/// "good", "bad" or ""
const char* tone_name(Tone tone);

/// A table of the rows of a list, made column by column. `cell` makes a cell, a text or a number of
/// a row, or is a member of it; `format` writes numbers.
template <class Row>
class TableOf {
 public:
  explicit TableOf(const std::vector<Row>& rows) : rows_(rows) { table_.rows.resize(rows.size()); }

  template <class Make>
  TableOf& words(std::string name, Make cell) {
    return add({std::move(name), false}, cell, nullptr);
  }
  template <class Make>
  TableOf& numbers(std::string name, Make cell,
                   std::string (*format)(double) = format_significant) {
    return add({std::move(name), true}, cell, format);
  }
  operator ResultTable() { return std::move(table_); }

 private:
  template <class Make>
  TableOf& add(Column column, const Make& cell, std::string (*format)(double)) {
    table_.columns.push_back(std::move(column));
    for (size_t i = 0; i < rows_.size(); ++i) {
      auto&& value = std::invoke(cell, rows_[i]);
      if constexpr (std::is_convertible_v<decltype(value), double>) {
        table_.rows[i].push_back({shown(value, format)});
      } else {
        table_.rows[i].push_back(Cell{value});
      }
    }
    return *this;
  }

  const std::vector<Row>& rows_;
  ResultTable table_;
};

}  // namespace duet
