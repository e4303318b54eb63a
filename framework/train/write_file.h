// Files that are written whole.
#pragma once

#include <filesystem>
#include <string>

namespace duet {

/// Replaces a whole file: all of it or, throwing RunError, nothing. A link stays and what it leads
/// to is replaced; a device or a pipe is written to.
void write_file(const std::filesystem::path& path, const std::string& text);

/// Why write_file() cannot write there, as far as that shows without content; empty if it can.
/// REQUIRES: the folder is there, or the path is to have no folder.
std::string why_not_writable(const std::filesystem::path& path);

/// True if the paths lead to the same file, or will when it is there.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace duet
