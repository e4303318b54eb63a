// Other programs: whether they are there, and what they say.
#pragma once

#include <optional>
#include <string>

namespace duet {

struct CommandResult {
  int code = 0;        // exit code, or 128 + the signal that ended it
  std::string output;  // standard output and standard error
};

/// Runs a command of the shell to its end. Throws RunError if it cannot be started.
CommandResult run_command(const std::string& command);

/// Of the environment: folders with a ':' between them.
std::string path_variable();
/// The first of that name in the folders of `path` that can be executed; a name with a '/' is that
/// file itself. Nothing if there is none.
std::optional<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace duet
