// An input of a fuzzer as a file, for readers that take a path.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace duet {

/// The path of a file of that name, in a folder of this process in memory if the system has such,
/// which holds `input` until the next call.
inline std::filesystem::path input_path(const std::string& name, std::string_view input) {
  struct Folder {
    std::filesystem::path path;
    Folder() {
      const bool memory = access("/dev/shm", W_OK) == 0;
      path = memory ? "/dev/shm" : std::filesystem::temp_directory_path();
      path /= "duet-fuzz-" + std::to_string(getpid());
      std::filesystem::create_directory(path);
    }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static const Folder folder;
  std::ofstream file(folder.path / name, std::ios::binary | std::ios::trunc);
  file.write(input.data(), static_cast<std::streamsize>(input.size()));
  if (!file.flush()) throw std::runtime_error("cannot write an input");
  return folder.path / name;
}

}  // namespace duet
