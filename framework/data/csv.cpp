#include "data/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <stdexcept>

#include "core/config.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "data/data_memory.h"
#include "data/text_lines.h"

namespace duet {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t'; }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<float> finite_number(std::string_view text) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double value = 0.0;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, value);
  if (parsed != end || (error != std::errc() && error != std::errc::result_out_of_range)) return {};
  if (error != std::errc()) value = read_number(std::string(text).c_str());  // 0 or infinite
  const auto number = static_cast<float>(value);
  return std::isfinite(number) ? std::optional(number) : std::nullopt;
}

class CsvReader {
 public:
  CsvReader(const std::filesystem::path& file, const CsvRules& rules) : file_(file), rules_(rules) {
    if (!rules.header) set_label_number();
  }

  void take(const TextLine& line) {
    if (trimmed(line.text).empty()) return;
    std::vector<std::string> fields;
    try {
      fields = csv_fields(line.text, rules_.delimiter);
    } catch (const std::invalid_argument& error) {
      line.fail(error.what());
    }
    const auto expected = static_cast<size_t>(rules_.features) + 1;
    if (fields.size() != expected) {
      line.fail(
          "expected " + std::to_string(expected) + " columns (" + std::to_string(rules_.features) +
          " numbers, as data.features says, and a label), "
          "found " +
          std::to_string(fields.size()) + (fields.size() == 1 ? "; is data.delimiter right?" : ""));
    }
    if (rules_.header && names_.empty()) return set_names(line, std::move(fields));
    add_row(line, fields);
  }

  CsvTable table;

 private:
  void set_label_number() {
    const char* end = rules_.label.data() + rules_.label.size();
    const auto [parsed, error] = std::from_chars(rules_.label.data(), end, label_);
    if (error == std::errc() && parsed == end && label_ <= static_cast<size_t>(rules_.features)) {
      return;
    }
    throw DataError(file_.string() +
                    ": without a header data.label is a column's number, from 0 "
                    "to " +
                    std::to_string(rules_.features) + ", not '" + printable(rules_.label) + "'");
  }

  void set_names(const TextLine& line, std::vector<std::string> names) {
    for (std::string& name : names) name = std::string(trimmed(name));
    label_ =
        static_cast<size_t>(std::find(names.begin(), names.end(), rules_.label) - names.begin());
    if (label_ == names.size()) {
      line.fail("no column is called '" + printable(rules_.label) + "'" +
                did_you_mean(rules_.label, names) +
                "; data.label names that of the label, and with data.header: false its number");
    }
    if (std::count(names.begin(), names.end(), rules_.label) > 1) {
      line.fail("more than one column is called '" + printable(rules_.label) +
                "'; give the label's a name of its own, and take the others out");
    }
    names_ = names;
    names.erase(names.begin() + static_cast<int64_t>(label_));
    table.columns = std::move(names);
  }

  std::string column_text(size_t i) const {
    return "column " + std::to_string(i + 1) +
           (names_.empty() ? "" : " ('" + printable(names_[i]) + "')");
  }

  void add_row(const TextLine& line, const std::vector<std::string>& fields) {
    make_room(table.numbers, fields.size(), file_.string());
    const size_t before = table.numbers.size();
    for (size_t i = 0; i < fields.size(); ++i) {
      const bool is_label = i == label_;
      const std::optional<float> number = is_label ? 0.0f : finite_number(fields[i]);
      if (!is_label && number) table.numbers.push_back(*number);
      const bool is_blank = trimmed(fields[i]).empty();
      if (number && !(is_label && is_blank)) continue;
      const std::string what = column_text(i) + ": expected " +
                               (is_label ? "a label" : "a finite number") + ", found " +
                               (is_blank ? "nothing" : "'" + printable(fields[i]) + "'");
      if (!rules_.skip) line.fail(what + "; data.on_error: skip leaves such rows out");
      table.numbers.resize(before);
      table.skipped.push_back("line " + std::to_string(line.number) + ", " + what);
      return;
    }
    table.labels.emplace_back(trimmed(fields[label_]));
    table.lines.push_back(line.number);
  }

  const std::filesystem::path& file_;
  const CsvRules& rules_;
  std::vector<std::string> names_;  // of the columns, once the header was read
  size_t label_ = 0;                // which column
};

}  // namespace

std::vector<std::string> csv_fields(std::string_view line, char delimiter) {
  const auto behind_blanks = [&](size_t i) {
    while (i < line.size() && line[i] != delimiter && is_blank(line[i])) ++i;
    return i;
  };
  std::vector<std::string> fields;
  for (size_t i = 0;;) {
    std::string field;
    const size_t begin = behind_blanks(i);
    if (begin < line.size() && line[begin] == '"') {
      for (i = begin + 1;; ++i) {
        if (i == line.size()) throw std::invalid_argument("a quote (\") does not end in its line");
        if (line[i] != '"') {
          field += line[i];
        } else if (i + 1 < line.size() && line[i + 1] == '"') {
          field += line[i++];
        } else {
          break;
        }
      }
      i = behind_blanks(i + 1);
      if (i < line.size() && line[i] != delimiter) {
        throw std::invalid_argument("a quoted field is followed by other text");
      }
    } else {
      const size_t end = std::min(line.find(delimiter, i), line.size());
      field = line.substr(i, end - i);
      i = end;
    }
    fields.push_back(std::move(field));
    if (i == line.size()) return fields;
    ++i;
  }
}

CsvTable read_csv(const std::filesystem::path& file, const CsvRules& rules) {
  CsvReader reader(file, rules);
  read_lines(file, [&](const TextLine& line) { reader.take(line); });
  if (reader.table.labels.empty()) {
    throw DataError(file.string() + ": holds no rows" +
                    (reader.table.skipped.empty() ? "" : " that can be read"));
  }
  return std::move(reader.table);
}

}  // namespace duet
