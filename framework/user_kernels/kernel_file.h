// A file with kernels of a user's own: an implementation of one layer type, compiled while the program
// runs (docs/kernels-at-run-time.md). It is read once; what is done to the file later changes nothing.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "device/device.h"

namespace duet {

/// LAYER_custom_NAME.cu runs on the GPU, LAYER_cpu_NAME.cpp on the CPU.
struct KernelFile {
  std::filesystem::path path;
  Device device = Device::kGpu;
  std::string type;  // "conv2d", of conv2d_custom_mine.cu
  std::string id;    // "custom_mine"
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // what it includes by "name", and text
  bool plugin =
      false;  // the source is host code, too, and ends in DUET_PLUGIN (user_kernels/plugin.h)
  std::string hash;  // of the source and the headers, 12 hexadecimal digits

  /// "conv2d_custom_mine"
  std::string name() const { return type + "_" + id; }
};

/// A copy of what is read: places beside each other, and the texts. Headers lie in a folder of the file's
/// own, "conv2d_custom_mine.headers", wherever they came from, and read_kernel_file() looks there first:
/// of a copy it makes the same source, with the same hash.
std::vector<std::pair<std::filesystem::path, std::string>> copy_of(const KernelFile& file);

/// The name of the file of a layer type's kernels for a device: "conv2d_custom_mine.cu".
std::string kernel_file_name(const std::string& type, Device device, const std::string& name);
/// What stands before NAME in an id: "custom_" or "cpu_".
std::string id_prefix(Device device);
/// Whether it ends as the path of a file of kernels does.
bool is_kernel_path(const std::string& path);

/// What its name says, and no source. Throws ConfigError: the name is none of those above, there is no
/// such layer type, or the type has an implementation of that id.
KernelFile named_kernel_file(const std::filesystem::path& path);

/// Throws ConfigError as named_kernel_file() does, and where two files are included by one name, as a
/// compiler of texts takes a name for one of them; DataError where it cannot be read.
KernelFile read_kernel_file(const std::filesystem::path& path);

/// The first line that defines a function of that name, as far as a look at the text can tell; 1 if none
/// does.
int line_of_function(const KernelFile& file, const std::string& name);

/// The files of kernels in a folder, by name; `path` itself if it is none. Files of other names are
/// left alone. Throws ConfigError: there is nothing there, or no kernel in it.
std::vector<std::filesystem::path> kernel_files_in(const std::filesystem::path& path);

}  // namespace duet
