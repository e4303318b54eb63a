// The texts behind starter.h.
#pragma once

#include <map>
#include <string>

namespace duet {

/// By layer type, NAME in the place of the name.
using StarterTexts = std::map<std::string, const char*>;
const StarterTexts& cpu_starters();
const StarterTexts& gpu_starters();

}  // namespace duet
