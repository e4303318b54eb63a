// csv: rows of numbers, and a label in one column.
#include <algorithm>
#include <charconv>
#include <set>

#include "core/error.h"
#include "core/printable.h"
#include "data/csv.h"
#include "data/dataset_file.h"
#include "data/dataset_types.h"
#include "data/validation_split.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

struct CsvKeys {
  std::string folder;
  std::vector<std::string> files;  // of the training and of the validation data, if those have one
  CsvRules rules;
  ValidationSplit split;
};

// Whole numbers below the number of classes are the classes; other labels are names.
bool is_number(const std::string& label, int64_t classes) {
  int64_t number = -1;
  const char* end = label.data() + label.size();
  const auto [parsed, error] = std::from_chars(label.data(), end, number);
  return error == std::errc() && parsed == end && number >= 0 && number < classes &&
         label == std::to_string(number);
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
  Split split{static_cast<int64_t>(table.labels.size()), {}, {}, std::move(table.numbers)};
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
  throw DataError(file.string() +
                  ": its columns are not those of the training data: where those have '" +
                  printable(*expected) + "', it has '" + printable(*found) +
                  "'; give it the same columns in the same order (the label's may stand anywhere)");
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
    if (i == 0) data.class_names = names_of(file, table, info.classes);
    return split_of(file, std::move(table), data.class_names);
  };
  data.train = read(0, plain_or_packed(folder / keys.files[0]));
  if (keys.files.size() > 1) {
    data.validation = read(1, plain_or_packed(folder / keys.files[1]));
  } else {
    hold_out(data, keys.split);
  }
  return data;
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
  rules.label = reader.text("label", rules.header ? "label" : std::to_string(rules.features));
  const std::string delimiter = reader.choice("delimiter", {"comma", "semicolon", "tab"}, "comma");
  rules.delimiter = delimiter == "comma" ? ',' : delimiter == "tab" ? '\t' : ';';
  rules.skip = reader.choice("on_error", {"stop", "skip"}, "stop") == "skip";
  DatasetInfo info{"csv", rules.features, 1, 1, reader.integer("classes", {}, 2, 1 << 20)};
  info.numbers = true;
  return {info, [info, keys](const fs::path& data_dir) { return load(info, keys, data_dir); }};
}

}  // namespace

const DatasetType& csv_type() {
  static const DatasetType type = {.name = "csv",
                                   .summary = "your own rows of numbers with a label, in CSV files",
                                   .read = read_csv_dataset,
                                   .keys_name_files = true};
  return type;
}

}  // namespace duet
