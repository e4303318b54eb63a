#include "core/command.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "core/error.h"

namespace duet {
namespace {

bool is_program(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

}  // namespace

CommandResult run_command(const std::string& command) {
  FILE* pipe = popen(("{ " + command + "\n} 2>&1").c_str(), "re");
  if (!pipe) throw RunError("cannot start " + command);
  CommandResult result;
  std::array<char, 4096> part;
  while (const size_t count = fread(part.data(), 1, part.size(), pipe)) {
    result.output.append(part.data(), count);
  }
  const int status = pclose(pipe);
  result.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

std::string path_variable() {
  const char* path = std::getenv("PATH");
  return path ? path : "";
}

std::optional<std::string> find_program(const std::string& name, const std::string& path) {
  if (name.find('/') != std::string::npos) {
    return is_program(name) ? std::optional(name) : std::nullopt;
  }
  std::istringstream folders(path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string program = folder + "/" + name;
    if (!folder.empty() && is_program(program)) return program;
  }
  return {};
}

}  // namespace duet
