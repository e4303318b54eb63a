#include "user_kernels/shared_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/descriptor.h"
#include "core/error.h"
#include "device/tuning_cache.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

/// A file with some content and a name that no file before had, while it is opened. The loader takes a
/// library of a known name for the one that it has.
class CodeFile {
 public:
  CodeFile(const fs::path& folder, const std::string& code) {
    std::error_code error;
    fs::create_directories(folder, error);
    path_ = (folder / "loaded-XXXXXX").string();
    Descriptor file(mkstemp(path_.data()));
    if (!file) {
      throw RunError("cannot make a file in " + folder.string() + ": " + std::strerror(errno));
    }
    if (write_all(file, code) && file.close()) return;
    const std::string why = std::strerror(errno);
    unlink(path_.c_str());
    throw RunError("cannot write " + path_ + ": " + why);
  }
  ~CodeFile() { unlink(path_.c_str()); }
  CodeFile(const CodeFile&) = delete;
  CodeFile& operator=(const CodeFile&) = delete;

  void* open() const { return dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL); }

 private:
  std::string path_;
};

void* load(const std::string& code) {
  std::string problem;
  // A folder for temporary files may be mounted so that nothing in it is executed.
  for (const fs::path& folder : {TuningCache::path_of("kernels"), fs::temp_directory_path()}) {
    if (folder.empty()) continue;
    try {
      if (void* library = CodeFile(folder, code).open()) return library;
      problem = dlerror();
    } catch (const RunError& error) {
      problem = error.what();
    }
  }
  throw RunError("compiled kernels cannot be loaded: " + problem);
}

}  // namespace

void* open_library(const std::string& code) {
  static std::mutex mutex;
  static std::map<std::string, void*> loaded;
  const std::lock_guard lock(mutex);
  const auto found = loaded.find(code);
  if (found != loaded.end()) return found->second;
  return loaded[code] = load(code);
}

}  // namespace duet
