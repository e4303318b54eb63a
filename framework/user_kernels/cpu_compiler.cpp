#include <cstdlib>
#include <sstream>

#include "core/command.h"
#include "core/error.h"
#include "core/shell_word.h"
#include "device/cpu.h"
#include "user_kernels/command_compiler.h"

namespace duet {
namespace {

// As Duet's own code for the CPU, but for this processor alone.
constexpr const char* kOptions =
    "-std=c++20 -O3 -march=native -fopenmp -fPIC -shared -fvisibility=hidden -fno-math-errno "
    "-fno-trapping-math";

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

}  // namespace

CompilerCommand cpu_command() {
  const Found found = find_compiler();
  if (found.command.empty()) throw UnsupportedError(found.missing);
  return {.words = found.command + " " + kOptions,
          .key = version_of(found.command) + cpu_features()};
}

std::unique_ptr<const KernelCompiler> cpu_compiler() { return command_compiler(cpu_command()); }

std::string cpu_compiler_text() {
  const Found found = find_compiler();
  if (found.command.empty()) return "none: " + found.missing;
  try {
    const std::string version = version_of(found.command);
    return version.substr(0, version.find('\n')) + " (" + found.command + ")";
  } catch (const Error& error) {
    return std::string("none: ") + error.what();
  }
}

}  // namespace duet
