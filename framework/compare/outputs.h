// The files that a program is asked to write: checked before anything is measured, and written each
// by itself, so that one that fails leaves the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"

namespace duet {

/// A file and the option that names it, for messages. An empty one was not asked for.
struct NamedFile {
  std::string option, file;
};

/// That each of `outputs` can be written later, when there is something to lose, and is neither
/// another one of them nor one of `inputs`; their folders are made. Throws ConfigError.
void check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

/// Writes what `make` returns to `file`, if that is not empty, and logs "<what> <file>". An error
/// is logged and its exit code returned.
ExitCode write_output(const std::string& file, const std::string& what,
                      const std::function<std::string()>& make);

}  // namespace duet
