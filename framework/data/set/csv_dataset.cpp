// csv: rows of numbers, and in columns of their own a label, targets or both. Targets are numbers
// that are taken as they stand: the field `targets`, a record of one for each column.
#include <algorithm>
#include <bit>
#include <charconv>
#include <set>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "data/format/csv.h"
#include "data/set/dataset_file.h"
#include "data/set/dataset_types.h"
#include "data/set/validation_split.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

struct CsvKeys {
  std::string folder;
  std::vector<std::string> files;  // of the training and of the validation data, if those have one
  CsvRules rules;
  ValidationSplit split;
};

// True of "0" to "limit - 1". Such labels are the numbers of their classes; others are names.
bool is_number(const std::string& text, int64_t limit) {
  int64_t number = -1;
  const char* end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && parsed == end && number >= 0 && number < limit &&
         text == std::to_string(number);
}

// The first row whose label is one too many: no number where others are, or a name beyond `classes` of
// them. The count of rows if there is none.
size_t first_too_many(const std::vector<std::string>& labels, int64_t classes, bool numbers) {
  std::set<std::string> names;
  for (size_t i = 0; i < labels.size(); ++i) {
    names.insert(labels[i]);
    const bool fits =
        numbers ? is_number(labels[i], classes) : static_cast<int64_t>(names.size()) <= classes;
    if (!fits) return i;
  }
  return labels.size();
}

std::vector<std::string> names_of(const fs::path& file, const CsvTable& table, int64_t classes) {
  const auto numbers =
      std::count_if(table.labels.begin(), table.labels.end(),
                    [&](const std::string& label) { return is_number(label, classes); });
  if (static_cast<size_t>(numbers) == table.labels.size()) return numbered_classes(classes);
  const std::set<std::string> names(table.labels.begin(), table.labels.end());
  if (static_cast<int64_t>(names.size()) == classes) return {names.begin(), names.end()};
  std::vector<std::string> some;
  for (const std::string& name : names) {
    if (some.size() < 10) some.push_back(printable(name));
  }
  std::string place = file.string();
  const size_t row = first_too_many(table.labels, classes, numbers > 0);
  if (row < table.labels.size()) {
    place += ":" + std::to_string(table.lines[row]) + ": the label '" +
             printable(table.labels[row]) + "' is one too many";
  }
  throw DataError(
      place + ": the labels have " + std::to_string(names.size()) +
      (names.size() == 1 ? " value (" : " values (") + join(some) +
      (names.size() > 10 ? ", ..." : "") + "), and data.classes is " + std::to_string(classes) +
      ": they must be as many names, or whole numbers from 0 to " + std::to_string(classes - 1));
}

Split split_of(const fs::path& file, CsvTable table, const std::vector<std::string>& names) {
  Split split{static_cast<int64_t>(table.lines.size()), {}, {}, std::move(table.numbers)};
  if (!table.targets.empty()) {
    std::vector<uint32_t>& words = split.records.emplace_back();
    for (const float target : table.targets) words.push_back(std::bit_cast<uint32_t>(target));
  }
  const std::set<std::string> known(names.begin(), names.end());
  for (size_t i = 0; i < table.labels.size(); ++i) {
    const auto found = std::find(names.begin(), names.end(), table.labels[i]);
    if (found == names.end()) {
      throw DataError(file.string() + ":" + std::to_string(table.lines[i]) + ": the label '" +
                      printable(table.labels[i]) + "' is of no class of the training data" +
                      did_you_mean(table.labels[i], names));
    }
    split.labels.push_back(static_cast<int32_t>(found - names.begin()));
  }
  return split;
}

// A number's place in the row is all that the network knows of it.
void check_columns(const fs::path& file, const std::vector<std::string>& columns,
                   const std::vector<std::string>& of_training) {
  const auto [found, expected] =
      std::mismatch(columns.begin(), columns.end(), of_training.begin(), of_training.end());
  if (found == columns.end()) return;
  throw DataError(
      file.string() + ": its columns are not those of the training data: where those have '" +
      printable(*expected) + "', it has '" + printable(*found) +
      "'; give it the same columns in the same order (those of the label and of targets "
      "may stand anywhere)");
}

// The names by which a file to predict from is read, if they can be: each is another, and
// checkpoints can hold it.
std::vector<std::string> names_to_find(const std::vector<std::string>& columns) {
  const std::set<std::string> names(columns.begin(), columns.end());
  const bool found =
      names.size() == columns.size() && std::all_of(names.begin(), names.end(), is_utf8);
  return found ? columns : std::vector<std::string>();
}

Dataset load(const DatasetInfo& info, const CsvKeys& keys, const fs::path& data_dir) {
  const fs::path folder = data_folder({keys.folder, keys.files}, "", data_dir);
  Dataset data{info};
  data.source = folder.string();
  std::vector<std::string> columns;  // of the training data
  const auto read = [&](size_t i, const fs::path& file) {
    CsvTable table = read_csv(file, keys.rules);
    if (i == 0) columns = table.columns;
    check_columns(file, table.columns, columns);
    if (!table.skipped.empty()) {
      data.warnings.push_back(file.string() + ": " + std::to_string(table.skipped.size()) +
                              " rows are left out; the first: " + table.skipped[0]);
      for (const std::string& row : table.skipped) data.left_out.add(file.string() + ": " + row);
    }
    if (i == 0 && info.classes > 0) data.class_names = names_of(file, table, info.classes);
    return split_of(file, std::move(table), data.class_names);
  };
  data.train = read(0, plain_or_packed(folder / keys.files[0]));
  if (keys.files.size() > 1) {
    data.validation = read(1, plain_or_packed(folder / keys.files[1]));
  } else {
    hold_out(data, keys.split);
  }
  data.columns = names_to_find(columns);
  return data;
}

// Reads which columns the label and the targets are in.
void read_columns(ConfigReader& reader, CsvRules& rules) {
  if (reader.has("targets")) rules.targets = reader.texts("targets", "the name of a column");
  const bool labelled = !reader.has("targets") || reader.has("label") || reader.has("classes");
  rules.label.reset();
  if (labelled) {
    const int64_t last = rules.features + std::ssize(rules.targets);
    rules.label = reader.text("label", rules.header ? "label" : std::to_string(last));
  }
  for (const char* key : {"label", "targets"}) reader.raw(key);
  std::vector<std::pair<const char*, std::string>> named;
  if (rules.label) named.emplace_back("label", *rules.label);
  for (const std::string& target : rules.targets) named.emplace_back("targets", target);
  std::set<std::string> names;
  for (const auto& [key, name] : named) {
    const std::string text = "'" + printable(name) + "'";
    if (!is_utf8(name)) {
      reader.error(key, text + " is not UTF-8");
    } else if (!rules.header && !is_number(name, std::ssize(named) + rules.features)) {
      reader.error(key, "without a header data." + std::string(key) +
                            " is a column's number, from 0 to " +
                            std::to_string(rules.columns() - 1) + ", not " + text);
    } else if (!names.insert(name).second) {
      reader.error(key, text +
                            (rules.label == name ? " is the column of the label (data.label)"
                                                 : " is named twice") +
                            "; a column is the label or one target");
    }
  }
}

SampleRows read_rows(const fs::path& file, CsvRules rules,
                     const std::vector<std::string>& columns) {
  CsvTable table =
      read_csv_features(file, rules, rules.header ? columns : std::vector<std::string>());
  SampleRows rows{{}, std::move(table.numbers)};
  for (const int64_t line : table.lines) {
    rows.names.push_back(file.string() + ":" + std::to_string(line));
  }
  return rows;
}

DatasetLoader read_csv_dataset(ConfigReader& reader) {
  CsvKeys keys;
  keys.folder = reader.text("folder", "csv");
  keys.files = {reader.text("train", "train.csv")};
  if (reader.has("validation")) {
    keys.files.push_back(reader.text("validation"));
    reader.reject("validation_split", "'validation' names a file");
  } else {
    reader.raw("validation");
    keys.split = read_validation_split(reader);
  }
  CsvRules& rules = keys.rules;
  rules.features = reader.integer("features", {}, 1, 1 << 20);
  rules.header = reader.flag("header", true);
  read_columns(reader, rules);
  const std::string delimiter = reader.choice("delimiter", {"comma", "semicolon", "tab"}, "comma");
  rules.delimiter = delimiter == "comma" ? ',' : delimiter == "tab" ? '\t' : ';';
  rules.skip = reader.choice("on_error", {"stop", "skip"}, "stop") == "skip";
  DatasetInfo info{"csv", rules.features, 1, 1};
  if (rules.label) info.classes = reader.integer("classes", {}, 2, 1 << 20);
  reader.raw("classes");
  info.numbers = true;
  if (const int64_t count = std::ssize(rules.targets); count > 0) {
    info.records = {{std::string(kTargetsField), FieldKind::kNumbers, {count}, 0, rules.targets}};
  }
  return {.info = info,
          .load = [info, keys](const fs::path& data_dir) { return load(info, keys, data_dir); },
          .read_rows =
              [rules](const fs::path& file, const std::vector<std::string>& columns) {
                return read_rows(file, rules, columns);
              }};
}

}  // namespace

const DatasetType& csv_type() {
  static const DatasetType type = {.name = "csv",
                                   .summary =
                                       "your own rows of numbers with a label or targets, in "
                                       "CSV files",
                                   .read = read_csv_dataset,
                                   .keys_name_files = true};
  return type;
}

}  // namespace duet
