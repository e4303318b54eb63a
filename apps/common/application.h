// What every application's main() does: parse, log to standard error, and turn errors into exit
// codes.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace duet {

/// Calls `run`, prints what it throws, and returns the exit code (core/error.h).
int run_application(int (*run)(int argc, char** argv), int argc, char** argv);

/// Parses. An exit code if that is all: help was asked for and printed, or something is wrong and
/// was told, with the option that may have been meant.
std::optional<int> parse(CLI::App& app, int argc, char** argv);

/// For options that are whole numbers in the decimal system; CLI11 alone takes 010 for 8.
CLI::Validator whole_number();

/// Options of what measures in child processes.
struct Isolation {
  bool one_process = false;
  int64_t patience = 300;  // seconds
};
std::vector<CLI::Option*> add_isolation(CLI::App& app, Isolation* isolation);

/// --kernels: loads files of a user's kernels (user_kernels/user_kernels.h), before anything asks for
/// implementations.
CLI::Option* add_kernels(CLI::App& app);

/// Prints "error: <what>" and where the help is; returns kExitUsage.
int tell_usage_error(const CLI::App& app, const std::string& what);

/// The command as it can be given to a shell again, under the application's name.
std::string command_text(const CLI::App& app, int argc, char** argv);

/// Logs go to standard error, coloured on a terminal unless NO_COLOR is set. `quiet` leaves
/// warnings and errors.
void set_up_logging(bool quiet);

}  // namespace duet
