#include "user_kernels/command_compiler.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/command.h"
#include "core/descriptor.h"
#include "core/error.h"
#include "core/input_file.h"
#include "core/shell_word.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMostObjectBytes = 256 << 20;
constexpr size_t kMostLogBytes = 16 << 20;

std::atomic<std::chrono::milliseconds> compiler_patience{std::chrono::minutes(5)};

// Throws CompilerHangsError, in terms of `name`.
CommandResult run_compiler(const std::string& name, const std::string& command) {
  CommandResult result =
      run_command(command, {.patience = compiler_patience, .output_bytes = kMostLogBytes});
  if (!result.limit.empty())
    throw CompilerHangsError(name + " " + result.limit + ", and was ended");
  return result;
}

/// A folder of its own, gone with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "duet-kernels-XXXXXX").string();
    if (!mkdtemp(name.data())) {
      throw RunError("cannot make the folder " + name + ": " + std::strerror(errno));
    }
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

class CommandCompiler : public KernelCompiler {
 public:
  explicit CommandCompiler(CompilerCommand command) : command_(std::move(command)) {}

  std::string key() const override { return command_.key + "\n" + command_.words; }

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
    const CommandResult result = run_compiler(
        command_.words, "LC_ALL=C " + command_.words + " " + command_.quote +
                            shell_word(folder.string()) + " -o " + shell_word(made.string()) + " " +
                            shell_word(text.string()));
    if (result.code > 128)
      throw RunError(command_.words + " was ended by a signal: " + result.output);
    if (result.code != 0) return {"", without(scratch.path(), result.output)};
    return {read_input_file(made, kMostObjectBytes), result.output};
  }

 private:
  static void write(const fs::path& path, const std::string& text) {
    std::error_code error;
    fs::create_directories(path.parent_path(), error);
    if (error) {
      throw RunError("cannot make the folder " + path.parent_path().string() + ": " +
                     error.message());
    }
    Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (!file || !write_all(file, text) || !file.close()) {
      throw RunError("cannot write " + path.string() + ": " + std::strerror(errno));
    }
  }

  // Linkers name objects by paths that are gone when a user reads them.
  static std::string without(const fs::path& folder, std::string text) {
    const std::string place = folder.string() + "/";
    for (size_t at = 0; (at = text.find(place, at)) != std::string::npos;) {
      text.erase(at, place.size());
    }
    return text;
  }

  const CompilerCommand command_;
};

}  // namespace

void set_compiler_patience(std::chrono::milliseconds given) { compiler_patience = given; }

std::string version_of(const std::string& command) {
  const CommandResult result = run_compiler(command + " --version", command + " --version");
  if (result.code != 0) {
    throw UnsupportedError(command + " --version does not run: " + result.output);
  }
  return result.output;
}

std::unique_ptr<const KernelCompiler> command_compiler(const CompilerCommand& command) {
  return std::make_unique<CommandCompiler>(command);
}

}  // namespace duet
