#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <optional>
#include <sstream>

#include "core/command.h"
#include "core/error.h"
#include "core/input_file.h"
#include "core/shell_word.h"
#include "device/cpu.h"
#include "user_kernels/kernel_compiler.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

// As Duet's own code for the CPU, but for this processor alone.
constexpr const char* kOptions =
    "-std=c++20 -O3 -march=native -fopenmp -fPIC -shared -fvisibility=hidden -fno-math-errno "
    "-fno-trapping-math";
constexpr uint64_t kMostBytes = 256 << 20;

/// A folder of its own, gone with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "duet-kernels-XXXXXX").string();
    if (!mkdtemp(name.data())) throw RunError("cannot make a folder in " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code error;
    fs::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

struct Found {
  std::string command;  // words of the shell
  std::string missing;  // why there is none
};

// $CXX may have options, or a program before the compiler ("ccache g++").
Found find_compiler() {
  const char* named = std::getenv("CXX");
  if (named && *named) {
    std::istringstream words(named);
    std::string first;
    words >> first;
    if (find_program(first, path_variable())) return {named, ""};
    return {"", "CXX is '" + std::string(named) +
                    "', and there is no such program; it is to name a "
                    "C++ compiler, which compiles kernels of the CPU at run time"};
  }
  for (const char* name : {"c++", "g++", "clang++"}) {
    if (const auto found = find_program(name, path_variable())) return {shell_word(*found), ""};
  }
  return {
      "",
      "a C++ compiler, which compiles kernels of the CPU at run time, was not found: CXX is not "
      "set, and PATH has no c++, g++ or clang++ (Debian and Ubuntu: apt install g++)"};
}

// The first line of what --version says.
std::string version_of(const std::string& command) {
  const CommandResult result = run_command(command + " --version");
  if (result.code != 0) {
    throw UnsupportedError(command + " --version does not run: " + result.output);
  }
  return result.output.substr(0, result.output.find('\n'));
}

class CpuCompiler : public KernelCompiler {
 public:
  explicit CpuCompiler(const std::string& command)
      : command_(command), version_(version_of(command)) {}

  std::string key() const override {
    return version_ + " " + command_ + " " + kOptions + "\n" + cpu_features();
  }

  // Files are written as they were read: whoever saves them meanwhile changes nothing.
  CompiledCode compile(const KernelFile& file, const std::string& source) const override {
    const ScratchFolder scratch;
    const fs::path folder = scratch.path() / "1/2/3/4/5/6/7/8";  // for "../" in names of headers
    const fs::path text = folder / file.path.filename(), made = scratch.path() / "kernels.so";
    write(text, source);
    for (const auto& [name, header] : file.headers) {
      const fs::path place = (folder / name).lexically_normal();
      const auto [end, other] =
          std::mismatch(scratch.path().begin(), scratch.path().end(), place.begin(), place.end());
      if (end != scratch.path().end()) continue;  // the compiler finds it by its path
      write(place, "#line 1 \"" + name + "\"\n" + header);
    }
    const CommandResult result = run_command(
        "LC_ALL=C " + command_ + " " + kOptions + " -iquote " + shell_word(folder.string()) +
        " -o " + shell_word(made.string()) + " " + shell_word(text.string()));
    if (result.code > 128) throw RunError(command_ + " was ended by a signal: " + result.output);
    if (result.code != 0) return {"", without(scratch.path(), result.output)};
    return {read_input_file(made, kMostBytes), result.output};
  }

 private:
  static void write(const fs::path& path, const std::string& text) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    std::ofstream out(path, std::ios::binary);
    out << text;
    out.close();
    if (!out) throw RunError("cannot write " + path.string());
  }

  // Linkers name objects by paths that are gone when a user reads them.
  static std::string without(const fs::path& folder, std::string text) {
    const std::string place = folder.string() + "/";
    for (size_t at = 0; (at = text.find(place, at)) != std::string::npos;) {
      text.erase(at, place.size());
    }
    return text;
  }

  const std::string command_, version_;
};

}  // namespace

std::unique_ptr<const KernelCompiler> cpu_compiler() {
  const Found found = find_compiler();
  if (found.command.empty()) throw UnsupportedError(found.missing);
  return std::make_unique<CpuCompiler>(found.command);
}

std::string cpu_compiler_text() {
  const Found found = find_compiler();
  if (found.command.empty()) return "none: " + found.missing;
  try {
    return version_of(found.command) + " (" + found.command + ")";
  } catch (const Error& error) {
    return std::string("none: ") + error.what();
  }
}

}  // namespace duet
