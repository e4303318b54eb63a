#include "support/temporary_folder.h"

#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace duet {

namespace fs = std::filesystem;

namespace {

// In memory where there is enough: on a disk each of the 26 fsync() of a training takes 4 ms.
fs::path folder_of_all() {
  const char* memory = "/dev/shm";
  struct statvfs found {};
  const bool usable = access(memory, W_OK) == 0 && statvfs(memory, &found) == 0 &&
                      !(found.f_flag & ST_NOEXEC) && found.f_bavail * found.f_frsize >= 4ul << 30;
  return usable ? memory : fs::temp_directory_path();
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  static const fs::path parent = folder_of_all();
  std::string name = (parent / "duet-test-XXXXXX").string();
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void TemporaryFolder::write(const fs::path& name, std::string_view content) const {
  fs::create_directories((path_ / name).parent_path());
  std::ofstream(path_ / name, std::ios::binary) << content;
}

std::string TemporaryFolder::read(const fs::path& name) const {
  std::ifstream file(path_ / name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace duet
