// Whole files, plain or gzip, into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace duet {

/// Throws DataError if the file cannot be read.
std::vector<uint8_t> read_file(const std::filesystem::path& file);

/// Unpacks gzip data, one or more members; `file` names it in errors. Throws DataError if the data
/// is not gzip, is truncated or corrupt (CRC-32, length), or is followed by anything else.
std::vector<uint8_t> gunzip(const std::vector<uint8_t>& packed, const std::filesystem::path& file);

}  // namespace duet
