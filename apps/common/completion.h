// Completion of an application's command line in a shell, made from what its parser knows.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace duet {

/// "bash", "zsh" and "fish"
const std::vector<std::string>& completion_shells();

/// A script for that shell to read: commands, options with their descriptions, and files or folders
/// behind those options and words whose type is one. A type that ends with "{a,b}" lists the values.
/// REQUIRES: `shell` is one of completion_shells().
std::string completion_script(const CLI::App& app, const std::string& shell);

}  // namespace duet
