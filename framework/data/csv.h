// Tables of numbers with a label in each row.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

struct CsvRules {
  char delimiter = ',';
  bool header = true;           // the first line names the columns
  std::string label = "label";  // a column's name, or its number from 0 without a header
  int64_t features = 1;         // the other columns
  bool skip = false;            // rows that are wrong are left out
};

struct CsvTable {
  std::vector<std::string>
      columns;                 // names of the features, in the file's order; none without a header
  std::vector<float> numbers;  // rows x features
  std::vector<std::string> labels;   // a text a row
  std::vector<int64_t> lines;        // where each row stands
  std::vector<std::string> skipped;  // why, of each row left out
};

/// Reads a file, plain or .gz; fields may stand in quotes (RFC 4180, within a line), blank lines and
/// blanks around fields do not count. Throws DataError with file, line and column: another number of
/// columns, no such label column or more than one, what is no finite number (with `skip` all but the last).
CsvTable read_csv(const std::filesystem::path& file, const CsvRules& rules);

/// The fields of a line, quoted ones without what stands around their quotes; throws
/// std::invalid_argument where quotes do not end or are followed by other text than blanks.
std::vector<std::string> csv_fields(std::string_view line, char delimiter);

}  // namespace duet
