// Tables of numbers, with a label, targets or both in each row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

/// A column is named by its name, or without a header by its number, from 0.
struct CsvRules {
  char delimiter = ',';
  bool header = true;                          // the first line names the columns
  std::optional<std::string> label = "label";  // the label's column, if there is one
  std::vector<std::string> targets = {};       // those of the targets
  int64_t features = 1;                        // the other columns
  bool skip = false;                           // rows that are wrong are left out

  size_t columns() const {
    return static_cast<size_t>(features) + targets.size() + (label ? 1 : 0);
  }
};

struct CsvTable {
  std::vector<std::string>
      columns;                 // names of the features, in the file's order; none without a header
  std::vector<float> numbers;  // rows x features
  std::vector<float> targets;  // rows x rules.targets
  std::vector<std::string> labels;   // a text a row, if there is a label
  std::vector<int64_t> lines;        // where each row stands
  std::vector<std::string> skipped;  // why, of each row left out
};

/// Reads a file, plain or .gz; fields may stand in quotes (RFC 4180, within a line), blank lines
/// and blanks around fields do not count. Throws DataError with file, line and column: another
/// number of columns, no such column of the label or a target or more than one, what is no finite
/// number (with `skip` all but the last). REQUIRES: the columns of label and targets are others
/// each; without a header they are numbers below rules.columns().
CsvTable read_csv(const std::filesystem::path& file, const CsvRules& rules);

/// Reads the features alone, of a file that need not have the other columns. `features` are their
/// names, in the order in which they come; others are passed by. If it is empty, as without a
/// header, the columns are the features in their order, or all those of `rules`. Throws DataError
/// likewise.
CsvTable read_csv_features(const std::filesystem::path& file, const CsvRules& rules,
                           const std::vector<std::string>& features);

/// The fields of a line, quoted ones without what stands around their quotes; throws
/// std::invalid_argument where quotes do not end or are followed by other text than blanks.
std::vector<std::string> csv_fields(std::string_view line, char delimiter);

}  // namespace duet
