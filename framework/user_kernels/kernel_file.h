// A file with kernels of a user's own: an implementation of one layer type, compiled while the program
// runs (docs/kernels-at-run-time.md). It is read once; what is done to the file later changes nothing.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace duet {

struct KernelFile {
  std::filesystem::path path;
  std::string type;  // "conv2d", of conv2d_custom_mine.cu
  std::string id;    // "custom_mine"
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // what it includes by "name", and text
  std::string hash;  // of the source and the headers, 12 hexadecimal digits

  /// "conv2d_custom_mine"
  std::string name() const { return type + "_" + id; }
};

/// A copy of what is read: places beside each other, and the texts. Headers lie in a folder of the file's
/// own, "conv2d_custom_mine.headers", wherever they came from, and read_kernel_file() looks there first:
/// of a copy it makes the same source, with the same hash.
std::vector<std::pair<std::filesystem::path, std::string>> copy_of(const KernelFile& file);

/// What its name says, and no source. Throws ConfigError: the name is not LAYER_custom_NAME.cu, there
/// is no such layer type, or the type has an implementation of that id.
KernelFile named_kernel_file(const std::filesystem::path& path);

/// Throws ConfigError as named_kernel_file() does, and where two files are included by one name, as a
/// compiler of texts takes a name for one of them; DataError where it cannot be read.
KernelFile read_kernel_file(const std::filesystem::path& path);

/// The files of kernels in a folder, by name; `path` itself if it is none. Files of other names are
/// left alone. Throws ConfigError: there is nothing there, or no kernel in it.
std::vector<std::filesystem::path> kernel_files_in(const std::filesystem::path& path);

}  // namespace duet
