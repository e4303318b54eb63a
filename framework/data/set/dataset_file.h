// A file of a data set, plain or gzip, read from its beginning to its end.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "core/input_file.h"

namespace duet {

/// A name that ends in ".gz" is gzip, one or more members; what is read is unpacked then, piece by
/// piece: a small file may unpack to more than any memory holds.
class DatasetFile {
 public:
  /// Throws DataError as InputFile does.
  explicit DatasetFile(const std::filesystem::path& path);
  ~DatasetFile();

  /// The next bytes, up to `bytes`; fewer at the end only. Throws DataError if the gzip data is
  /// truncated or corrupt (CRC-32, length), or is followed by anything else.
  size_t read(void* to, size_t bytes);
  /// How many there are in all; of a gzip file only unpacking it would tell.
  std::optional<uint64_t> size() const;

 private:
  class Inflater;

  const InputFile file_;
  uint64_t offset_ = 0;                 // of the next byte of a plain file
  std::unique_ptr<Inflater> inflater_;  // of a gzip file
};

/// `file`, or the same with ".gz" if that is what there is.
std::filesystem::path plain_or_packed(const std::filesystem::path& file);

}  // namespace duet
