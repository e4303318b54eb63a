// Where something was measured: a figure without this cannot be repeated.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace duet {

struct Environment {
  std::string gpu;  // empty without one
  size_t gpu_memory_bytes = 0;
  std::string driver;                                         // "570.86.15", or empty
  std::vector<std::pair<std::string, std::string>> versions;  // gpu::versions()
  std::string cpu;                                            // "AMD EPYC 9654 96-Core Processor"
  int cpu_threads = 0;                                        // that loops are shared by
  std::string os;                                             // "Debian GNU/Linux 12, Linux 6.1.0"
  std::string compiler;                                       // of the host's code: "GCC 12.2.0"
};

/// What cannot be found out is left empty; nothing is thrown.
Environment read_environment();

/// A sentence for each of gpu::versions() that is loaded in an older version than the one compiled
/// against, and where the driver supports an older CUDA than the runtime's.
std::vector<std::string> version_warnings(
    const std::vector<std::pair<std::string, std::string>>& versions);

}  // namespace duet
