// The library's calls of one training step, by layer and pass.
#pragma once

#include <string>

#include "train/setup.h"

namespace duet {

/// Makes the network, runs one step of it under the recorder, layer by layer, and lists what it
/// called. REQUIRES: recorder_is_loaded().
std::string step_trace(Setup& setup);

}  // namespace duet
