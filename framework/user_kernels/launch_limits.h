// What a GPU can launch.
#pragma once

#include <string>

#include "user_kernels/compiled_kernels.h"

namespace duet {

/// Why a launch is more than a GPU of that compute capability has, or "".
std::string beyond_limits(const LaunchRow& row, const KernelLaunch& launch, int capability);

}  // namespace duet
