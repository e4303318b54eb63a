// A folder of its own for a test.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace duet {

/// Empty at first, and gone at the end; in memory where the system has room for that.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }
  /// Also makes the folders that `name` goes through.
  void write(const std::filesystem::path& name, std::string_view content) const;
  /// Empty if there is no such file.
  std::string read(const std::filesystem::path& name) const;

 private:
  std::filesystem::path path_;
};

}  // namespace duet
