// The list of the cases of every layer type. A new layer adds its <type>_test.cpp, which defines
// <type>_cases(), and two lines in layer_cases.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "support/layer_case.h"

namespace duet {

struct CasesOfType {
  std::string_view type;
  std::vector<LayerCase> cases;
};

const std::vector<CasesOfType>& layer_cases();

}  // namespace duet
