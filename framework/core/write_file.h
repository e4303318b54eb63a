// Files that are written whole.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace duet {

/// Replaces a whole file, and makes sure that it is on the disk. It is written to a temporary file,
/// "<path>.duet.tmp<thread id>", which is then renamed: whatever happens, and whoever else writes it,
/// `path` is the old file or a whole new one. A link stays and what it leads to is replaced; a device or a pipe is
/// written to. A pipe that has no reader within two seconds is an error, as it may never have one. Throws
/// RunError, with `path` and the system's reason.
void write_file(const std::filesystem::path& path, const std::string& text);
/// The same with several pieces, one behind the other.
void write_pieces(const std::filesystem::path& path, const std::vector<std::string_view>& pieces);

/// The same for files of Duet's own, as in a cache: what is there is replaced, also a pipe, whose
/// reader may never come.
void replace_file(const std::filesystem::path& path, const std::vector<std::string_view>& pieces);

/// Removes the temporary files of `path` that killed processes left. REQUIRES: no other process
/// writes it.
void remove_temporary_files(const std::filesystem::path& path);

/// True of a regular file, and where nothing is yet: write_file() replaces it. False of a device or a pipe,
/// which it writes to.
bool is_replaced(const std::filesystem::path& path);

/// Why write_file() cannot write there, as far as that shows without content; empty if it can.
/// REQUIRES: the folder is there, or the path is to have no folder.
std::string why_not_writable(const std::filesystem::path& path);

/// True if the paths lead to the same file, or will when it is there.
bool same_file(const std::filesystem::path& a, const std::filesystem::path& b);

}  // namespace duet
