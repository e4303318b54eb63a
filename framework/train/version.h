#pragma once

#include <string>

namespace duet {

/// "0.1.0 (a5f7192)": the version and, in a git checkout, the commit it was configured at.
std::string version_text();

}  // namespace duet
