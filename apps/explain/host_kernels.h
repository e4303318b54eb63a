// What Duet's own kernels do between the library's calls, as loops on the host.
#pragma once

#include <string>

namespace duet {

/// The function in C++ that stands for a kernel, by the kernel's short name; empty if there is none.
std::string host_function(const std::string& kernel);

}  // namespace duet
