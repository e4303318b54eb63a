// Text files of a data set, line by line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

inline constexpr uint64_t kMostTextBytes = uint64_t{1} << 30;
inline constexpr size_t kMostLineBytes = size_t{1} << 20;

struct TextLine {
  const std::filesystem::path& file;
  int64_t number;         // from 1
  std::string_view text;  // without its end ("\n" or "\r\n")

  /// Throws DataError("file:number: what").
  [[noreturn]] void fail(const std::string& what) const;
  /// The parts between `separator`s.
  std::vector<std::string_view> fields(char separator) const;
};

/// Calls `take` with each line of a file, plain or .gz. A byte order mark is left out, and nothing
/// comes after the last line's end. Throws DataError: no such file, more than kMostTextBytes, a line
/// longer than kMostLineBytes, a byte 0.
void read_lines(const std::filesystem::path& file,
                const std::function<void(const TextLine& line)>& take);

}  // namespace duet
