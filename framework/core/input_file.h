// Files that are read: whoever wrote them, and whatever they are.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace duet {

/// A regular file, open for reading. A folder, a pipe, a socket and a device are refused by their
/// kind and never opened: opening or reading one could wait for ever, or never end.
class InputFile {
 public:
  /// Throws DataError, with the path and what is wrong.
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  /// When it was opened.
  uint64_t size() const { return size_; }
  /// Reads up to `bytes` from `offset` on and returns how many there were; fewer at the file's end
  /// only. Throws DataError.
  size_t read(uint64_t offset, void* to, size_t bytes) const;

  /// True if `path` leads to a file that this process has opened, by whatever path.
  static bool was_read(const std::filesystem::path& path);

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

/// The content of a regular file of at most `most` bytes. Throws DataError where it is not that,
/// before anything is read.
std::string read_input_file(const std::filesystem::path& path, uint64_t most);

/// Throws DataError("offset 12: ...") where JSON text is nested more than 64 deep or has more than
/// four million values: nlohmann::json calls itself once a level and takes many times the text's
/// memory. And where it holds a byte 0, which nlohmann::json takes for the end. Whether it is JSON at all is for the parser
/// to tell.
void check_json_bounds(const std::string& text);

}  // namespace duet
