// Compilers that are programs of the shell.
#pragma once

#include <memory>
#include <string>

#include "user_kernels/kernel_compiler.h"

namespace duet {

/// Makes a shared library of a file that is named behind it and "-o LIBRARY".
struct CompilerCommand {
  std::string words;               // of the shell, with its options
  std::string key;                 // its version, and all else that the code depends on
  std::string quote = "-iquote ";  // stands before the folder of what is included by "name"
};
std::unique_ptr<const KernelCompiler> command_compiler(const CompilerCommand& command);

/// What `command --version` says. Throws UnsupportedError where it does not run.
std::string version_of(const std::string& command);

/// The host's C++ compiler, $CXX or one on PATH, with the options of Duet's own code for the CPU, but for
/// this processor alone. Throws UnsupportedError where there is none.
CompilerCommand cpu_command();

}  // namespace duet
