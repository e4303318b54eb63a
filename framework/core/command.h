// Finds external programs on PATH, runs them and returns their output.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace duet {

struct CommandResult {
  int code = 0;        // exit code, or 128 + the signal that ended it
  std::string output;  // standard output and standard error
  std::string limit;   // that it was ended for: "has not ended after 2 s", or empty
};

struct CommandLimits {
  std::optional<std::chrono::milliseconds> patience = {};  // time in which this process is stopped
                                                           // does not count
  size_t output_bytes = 256 << 20;
};

/// Runs a command of the shell to its end, or until it exceeds a limit: it is killed then, with all that
/// it has started. Throws RunError if it cannot be started, InterruptedError soon after an interrupt.
CommandResult run_command(const std::string& command, const CommandLimits& limits = {});

/// Of the environment: folders with a ':' between them.
std::string path_variable();
/// The first of that name in the folders of `path` that can be executed; a name with a '/' is that
/// file itself. Nothing if there is none.
std::optional<std::string> find_program(const std::string& name, const std::string& path);

}  // namespace duet
