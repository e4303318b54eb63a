// Loads compiled functions into this process and calls them.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "core/error.h"
#include "device/tuning_cache.h"
#include "user_kernels/loaded_kernels.h"

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

void* open_library(const std::string& code) {
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

// Loaded once and never unloaded, as threads of OpenMP may be in its code for as long as the process
// lives.
void* library_of(const std::string& code) {
  static std::mutex mutex;
  static std::map<std::string, void*> loaded;
  const std::lock_guard lock(mutex);
  const auto found = loaded.find(code);
  if (found != loaded.end()) return found->second;
  return loaded[code] = open_library(code);
}

class CpuKernels : public LoadedKernels {
 public:
  CpuKernels(const CompiledKernels& compiled, const KernelInterface& interface,
             const std::string& detail)
      : LoadedKernels(compiled, interface, detail) {
    void* library = library_of(compiled.code);
    for (const KernelLaunch& launch : compiled.launches) {
      void* symbol = dlsym(library, launch.kernel.c_str());
      if (!symbol) throw RunError("compiled kernels have no " + launch.kernel);
      functions_[launch.pass] = reinterpret_cast<Function>(symbol);
    }
  }

 protected:
  void call(Pass pass, const Run& run, const Pointers& tensors, size_t, void* state) override {
    const HostExtras extras = {run.workspace, state, run.step, run.training};
    functions_.at(pass)(tensors.data(), &extras);
  }

 private:
  using Function = void (*)(void* const* tensors, const HostExtras* extras);
  std::map<Pass, Function> functions_;
};

}  // namespace

std::unique_ptr<Implementation> make_cpu_kernels(const CompiledKernels& compiled,
                                                 const KernelInterface& interface,
                                                 const std::string& detail) {
  return std::make_unique<CpuKernels>(compiled, interface, detail);
}

}  // namespace duet
