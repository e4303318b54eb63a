#include "data/format/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <stdexcept>

#include "core/config.h"
#include "core/error.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "data/batch/data_memory.h"
#include "data/format/text_lines.h"

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
  /// With `features` those alone are read, as by read_csv_features().
  CsvReader(const std::filesystem::path& file, const CsvRules& rules,
            const std::vector<std::string>* features = nullptr)
      : file_(file), rules_(rules), features_(features) {}

  void take(const TextLine& line) {
    if (trimmed(line.text).empty()) return;
    std::vector<std::string> fields;
    try {
      fields = csv_fields(line.text, rules_.delimiter);
    } catch (const std::invalid_argument& error) {
      line.fail(error.what());
    }
    if (columns_ == 0) {
      set_columns(line, fields);
      if (rules_.header) return;
    }
    check_count(line, fields.size());
    add_row(line, fields);
  }

  CsvTable table;

 private:
  static constexpr size_t kSeveral = ~size_t{0}, kMostMistakes = 5;

  static std::string counted(size_t count, const std::string& one) {
    return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
  }

  void check_count(const TextLine& line, size_t found) const {
    if (found == columns_) return;
    std::vector<std::string> parts = {std::to_string(rules_.features) +
                                      " numbers, as data.features says"};
    if (rules_.label) parts.push_back("a label");
    if (!rules_.targets.empty()) parts.push_back(counted(rules_.targets.size(), "target"));
    const std::string last = parts.size() > 1 ? ", and " + parts.back() : "";
    if (parts.size() > 1) parts.pop_back();
    line.fail("expected " + counted(columns_, "column") +
              (features_ ? "" : " (" + join(parts) + last + ")") + ", found " +
              std::to_string(found) + (found == 1 ? "; is data.delimiter right?" : ""));
  }

  // From the first line, which has the names if there is a header.
  void set_columns(const TextLine& line, const std::vector<std::string>& first) {
    columns_ = rules_.columns();
    if (features_ && (!features_->empty() || first.size() == feature_count())) {
      columns_ = first.size();
    }
    check_count(line, first.size());
    for (size_t i = 0; rules_.header && i < first.size(); ++i) {
      const std::string& name = names_.emplace_back(trimmed(first[i]));
      const auto [found, is_first] = numbers_.emplace(name, i);
      if (!is_first) found->second = kSeveral;
    }
    if (features_ && !features_->empty()) {
      for (const std::string& name : *features_) add_place(name, "data.features", &places_);
    } else {
      set_other_places();
    }
    if (!mistakes_.empty()) line.fail(join(mistakes_, "; "));
  }

  // Of all columns: the features are those that nothing names.
  void set_other_places() {
    std::vector<size_t> label;
    const bool has_others = !features_ || columns_ != feature_count();
    if (has_others && rules_.label) add_place(*rules_.label, "data.label", &label);
    if (!label.empty()) label_ = label[0];
    for (size_t i = 0; has_others && i < rules_.targets.size(); ++i) {
      add_place(rules_.targets[i], "data.targets", &targets_);
    }
    std::vector<bool> named(columns_);
    if (label_) named[*label_] = true;
    for (const size_t target : targets_) named[target] = true;
    for (size_t i = 0; i < columns_; ++i) {
      if (named[i]) continue;
      places_.push_back(i);
      if (rules_.header) table.columns.push_back(names_[i]);
    }
    if (!features_) return;
    label_.reset();
    targets_.clear();
  }

  // Adds the place of the column `name`, which `key` names, to `places`.
  void add_place(const std::string& name, const std::string& key, std::vector<size_t>* places) {
    if (!rules_.header) return places->push_back(static_cast<size_t>(*parse_integer(name)));
    const auto found = numbers_.find(name);
    const std::string quoted = "'" + printable(name) + "'";
    if (found != numbers_.end() && found->second != kSeveral) {
      return places->push_back(found->second);
    }
    if (mistakes_.size() == kMostMistakes) return;
    if (found != numbers_.end()) {
      mistakes_.push_back("more than one column is called " + quoted + ", which " + key +
                          " names; give each a name of its own");
    } else if (key == "data.features") {
      mistakes_.push_back("no column is called " + quoted + ", as one of the training data is" +
                          did_you_mean(name, names_));
    } else {
      mistakes_.push_back("no column is called " + quoted + did_you_mean(name, names_) + "; " +
                          key + " names it, and with data.header: false its number");
    }
  }

  size_t feature_count() const { return static_cast<size_t>(rules_.features); }

  std::string column_text(size_t i) const {
    return "column " + std::to_string(i + 1) +
           (names_.empty() ? "" : " ('" + printable(names_[i]) + "')");
  }

  // Adds the numbers in these columns to `to`; the first column that holds none, if there is one.
  std::optional<size_t> add_numbers(const std::vector<std::string>& fields,
                                    const std::vector<size_t>& columns, std::vector<float>* to) {
    make_room(*to, columns.size(), file_.string());
    for (const size_t i : columns) {
      const std::optional<float> number = finite_number(fields[i]);
      if (!number) return i;
      to->push_back(*number);
    }
    return {};
  }

  void add_row(const TextLine& line, const std::vector<std::string>& fields) {
    const size_t before = table.numbers.size(), targets_before = table.targets.size();
    std::optional<size_t> wrong = add_numbers(fields, places_, &table.numbers);
    if (!wrong) wrong = add_numbers(fields, targets_, &table.targets);
    if (!wrong && label_ && trimmed(fields[*label_]).empty()) wrong = label_;
    if (!wrong) {
      if (label_) table.labels.emplace_back(trimmed(fields[*label_]));
      table.lines.push_back(line.number);
      return;
    }
    const std::string what =
        column_text(*wrong) + ": expected " + (wrong == label_ ? "a label" : "a finite number") +
        ", found " +
        (trimmed(fields[*wrong]).empty() ? "nothing" : "'" + printable(fields[*wrong]) + "'");
    if (!rules_.skip || features_) {
      line.fail(what + (features_ ? "" : "; data.on_error: skip leaves such rows out"));
    }
    table.numbers.resize(before);
    table.targets.resize(targets_before);
    table.skipped.push_back("line " + std::to_string(line.number) + ", " + what);
  }

  const std::filesystem::path& file_;
  const CsvRules& rules_;
  const std::vector<std::string>* const features_;
  size_t columns_ = 0;                     // of a row; 0 before the first line
  std::vector<std::string> names_;         // of the columns, if there is a header
  std::map<std::string, size_t> numbers_;  // of the columns by their names, or kSeveral
  std::vector<std::string> mistakes_;
  std::vector<size_t> places_, targets_;  // which columns
  std::optional<size_t> label_;
};

CsvTable read_table(const std::filesystem::path& file, CsvReader&& reader) {
  read_lines(file, [&](const TextLine& line) { reader.take(line); });
  if (!reader.table.lines.empty()) return std::move(reader.table);
  throw DataError(file.string() + ": holds no rows" +
                  (reader.table.skipped.empty() ? "" : " that can be read"));
}

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
  return read_table(file, CsvReader(file, rules));
}

CsvTable read_csv_features(const std::filesystem::path& file, const CsvRules& rules,
                           const std::vector<std::string>& features) {
  return read_table(file, CsvReader(file, rules, &features));
}

}  // namespace duet
