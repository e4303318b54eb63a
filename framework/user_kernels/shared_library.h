// Compiled code for the host, in this process.
#pragma once

#include <string>

namespace duet {

/// What dlopen() returns for a shared library with these bytes. It is loaded once and never unloaded, as
/// threads of OpenMP may be in its code for as long as the process lives. Throws RunError: it cannot be
/// loaded.
void* open_library(const std::string& code);

}  // namespace duet
