#include "user_kernels/shared_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

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
    const int fd = mkstemp(path_.data());
    if (fd < 0) throw RunError("cannot make a file in " + folder.string());
    size_t done = 0;
    for (ssize_t got = 1; done < code.size() && got > 0; done += static_cast<size_t>(got)) {
      got = write(fd, code.data() + done, code.size() - done);
      if (got < 0) break;
    }
    close(fd);
    if (done == code.size()) return;
    unlink(path_.c_str());
    throw RunError("cannot write " + path_);
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
