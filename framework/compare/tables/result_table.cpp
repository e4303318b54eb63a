#include "compare/tables/result_table.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <sstream>

namespace duet {
namespace {

// In letters, on a console.
constexpr size_t kWidest = 200;        // a longer cell pushes the others of its row aside
constexpr size_t kWidestTable = 136;   // of a wider one headings take several lines, or it is split
constexpr size_t kWidestHeading = 12;  // then, of cells that are shorter
constexpr size_t kWidestVerdict = 16;  // words that stay in one part with the number before them

bool has_content(const ResultTable& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [&](const auto& row) {
    return !row[column].text.empty() && row[column].text != kNotMeasured;
  });
}

// Letters, not bytes: all but the first byte of a letter begin with the bits 10.
size_t width_of(const std::string& text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (byte & 0xC0) != 0x80; }));
}

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Its words in lines of at most `width` letters, or of one word that is longer.
Lines wrapped(const std::string& text, size_t width) {
  Lines lines;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (lines.empty() || width_of(lines.back()) + 1 + width_of(word) > width) {
      lines.push_back(word);
    } else {
      lines.back() += " " + word;
    }
  }
  return lines;
}

/// A column on a console, its heading and cells in lines.
struct ShownColumn {
  bool number;
  size_t width = 0;
  Lines heading;
  std::vector<Lines> cells;

  ShownColumn(const ResultTable& table, size_t column, size_t widest_heading)
      : number(table.columns[column].number) {
    for (const auto& row : table.rows) {
      cells.push_back(lines_of(row[column].text));
      for (const auto& line : cells.back()) width = std::max(width, width_of(line));
    }
    width = std::min(width, kWidest);
    heading = wrapped(table.columns[column].name, std::max(width, widest_heading));
    for (const auto& line : heading) width = std::max(width, width_of(line));
  }

  // Line `n` of a cell, filled with blanks.
  std::string line(const Lines& cell, size_t n) const {
    const std::string text = n < cell.size() ? cell[n] : "";
    const std::string blanks(width - std::min(width, width_of(text)), ' ');
    return number ? blanks + text : text + blanks;
  }
};

std::string part_text(const std::vector<const ShownColumn*>& part) {
  std::string text;
  const auto add = [&](size_t height, const auto& line_of) {
    for (size_t n = 0; n < height; ++n) {
      std::string line;
      for (const ShownColumn* column : part) line += line_of(*column, n) + "  ";
      line.erase(line.find_last_not_of(' ') + 1);
      text += line + "\n";
    }
  };
  size_t height = 0;
  for (const ShownColumn* column : part) height = std::max(height, column->heading.size());
  add(height, [&](const ShownColumn& column, size_t n) {  // the last lines stand side by side
    return column.line(column.heading, n + column.heading.size() - height);
  });
  for (size_t row = 0; row < part[0]->cells.size(); ++row) {
    height = 1;
    for (const ShownColumn* column : part) height = std::max(height, column->cells[row].size());
    add(height,
        [&](const ShownColumn& column, size_t n) { return column.line(column.cells[row], n); });
  }
  return text;
}

}  // namespace

std::string console_text(const ResultTable& table) {
  if (table.rows.empty()) return "";
  std::vector<ShownColumn> columns;
  for (const size_t widest_heading : {kWidest, kWidestHeading}) {
    columns.clear();
    size_t all = 0;
    for (size_t i = 0; i < table.columns.size(); ++i) {
      if (!has_content(table, i)) continue;
      all += columns.emplace_back(table, i, widest_heading).width + 2;
    }
    if (all <= kWidestTable) break;
  }
  if (columns.empty()) return "";
  size_t keys = 1, width = 0;  // what the parts of a wide table have in common, and its width
  while (keys < columns.size() && !columns[keys].number) ++keys;
  std::vector<const ShownColumn*> part;
  std::string text;
  for (size_t i = 0; i < columns.size(); ++i) {
    size_t wanted = width + columns[i].width;
    if (i + 1 < columns.size() && !columns[i + 1].number &&
        columns[i + 1].width <= kWidestVerdict) {
      wanted += 2 + columns[i + 1].width;
    }
    if (part.size() > keys && columns[i].number && wanted > kWidestTable) {
      text += part_text(part) + "\n";
      part.resize(keys);
      width = 0;
      for (const ShownColumn* key : part) width += key->width + 2;
    }
    part.push_back(&columns[i]);
    width += columns[i].width + 2;
  }
  return text + part_text(part);
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
