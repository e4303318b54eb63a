// The host's processor.
#pragma once

#include <string>

namespace duet {

/// "AMD EPYC 9575F 64-Core Processor"; empty if the system does not say.
std::string cpu_name();
/// All that code for exactly this processor (-march=native) depends on: its name and what it can do.
std::string cpu_features();

}  // namespace duet
