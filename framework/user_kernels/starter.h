// Files of kernels to begin with: naive, and right.
#pragma once

#include <string>
#include <vector>

#include "device/device.h"

namespace duet {

/// The layer types that have one, for either device.
std::vector<std::string> starter_types();
/// The text of TYPE_custom_NAME.cu or TYPE_cpu_NAME.cpp. REQUIRES: `type` is in starter_types().
std::string starter_text(const std::string& type, const std::string& name,
                         Device device = Device::kGpu);
/// A problem to begin with, as bench takes it.
std::string starter_shape(const std::string& type);

}  // namespace duet
