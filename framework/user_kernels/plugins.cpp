#include "user_kernels/plugins.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "core/command.h"
#include "core/error.h"
#include "core/shell_word.h"
#include "device/cpu.h"
#include "user_kernels/command_compiler.h"
#include "user_kernels/headers_hash.h"
#include "user_kernels/shared_library.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// As the tree's own .cu files.
constexpr const char* kNvccOptions =
    " -std=c++20 -O3 -shared -cudart shared --extended-lambda --expt-relaxed-constexpr -lineinfo "
    "-Xcompiler -fPIC,-fvisibility=hidden,-fno-math-errno,-fno-trapping-math";

// Beside the program where Duet is installed, or the source that it was built from.
fs::path header_folder() {
  const char* named = std::getenv("DUET_INCLUDE");
  if (named && *named) return named;
  std::error_code error;
  const fs::path installed =
      fs::read_symlink("/proc/self/exe", error).parent_path().parent_path() / "include/duet";
  return fs::exists(installed / "layers/layer.h", error) ? installed : fs::path(DUET_HEADERS);
}

// Throws UnsupportedError.
std::string checked_headers() {
  const fs::path folder = header_folder();
  std::error_code error;
  if (!fs::exists(folder / "user_kernels/plugin.h", error)) {
    throw UnsupportedError("a plugin is compiled with Duet's headers, and " + folder.string() +
                           " has none; set DUET_INCLUDE to the folder that has layers/layer.h");
  }
  if (hash_of_headers(folder) != kBuiltHeaders) {
    throw UnsupportedError(
        "the headers in " + folder.string() +
        " are of another Duet than this program, so that a plugin compiled with them could not run "
        "in it; build Duet again, or set DUET_INCLUDE to the headers that it was built from");
  }
  return folder.string();
}

// $CUDACXX may have options, as CMake's may.
std::string find_nvcc() {
  const char* named = std::getenv("CUDACXX");
  if (named && *named) return named;
  std::string places = path_variable();
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* folder = std::getenv(variable)) places += ":" + std::string(folder) + "/bin";
  }
  if (const auto found = find_program("nvcc", places + ":/usr/local/cuda/bin")) {
    return shell_word(*found);
  }
  throw UnsupportedError(
      "a plugin for the GPU is compiled by nvcc, which is neither on PATH nor in "
      "/usr/local/cuda/bin; set CUDACXX to it");
}

CompilerCommand nvcc_command(int capability) {
  const std::string nvcc = find_nvcc(), own = capability >= 90 ? "a" : "";
  CompilerCommand command = {
      .words = nvcc + kNvccOptions + " -arch=sm_" + std::to_string(capability) + own,
      .key = version_of(nvcc),
      .quote = "-Xcompiler -iquote,"};
  // nvcc reads them itself.
  for (const char* variable : {"NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS"}) {
    if (const char* flags = std::getenv(variable)) command.key += "\n" + std::string(flags);
  }
  return command;
}

// A program exports its symbols to what it loads, but not a module that Python has loaded.
void export_own_symbols() {
  static const bool done = [] {
    Dl_info own;
    if (dladdr(reinterpret_cast<void*>(&open_plugin), &own) && own.dli_fname) {
      dlopen(own.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
    }
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

std::unique_ptr<const KernelCompiler> plugin_compiler(Device device, int capability) {
  CompilerCommand command = device == Device::kGpu ? nvcc_command(capability) : cpu_command();
  command.words += " -DDUET_WITH_CUDA=" + std::to_string(DUET_WITH_CUDA) + " -I " +
                   shell_word(checked_headers());
  command.key += std::string("\n") + kBuiltHeaders;
  return command_compiler(command);
}

const PluginRow* open_plugin(const KernelFile& file, const std::string& code, const Layer& layer) {
  const std::string place = file.path.string() + ": ";
  export_own_symbols();
  void* library = nullptr;
  try {
    library = open_library(code);
  } catch (const RunError& error) {
    throw ConfigError(place + error.what());
  }
  using RowOf = const PluginRow* (*)();
  const auto row_of = reinterpret_cast<RowOf>(dlsym(library, "duet_plugin"));
  if (!row_of) throw ConfigError(place + "its DUET_PLUGIN(...) is not compiled");
  const PluginRow* row = row_of();
  if (row->id() != file.id) {
    throw ConfigError(place + "its DUET_PLUGIN names '" + std::string(row->id()) +
                      "', and its file's name says " + file.id);
  }
  if (!row->fits(layer)) {
    throw ConfigError(place + "its DUET_PLUGIN is a row of another layer's list than " + file.type +
                      "'s");
  }
  return row;
}

}  // namespace duet
