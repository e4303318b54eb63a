// The text of values.h, which programs begin with.
#pragma once

#include <string_view>

namespace duet {

extern const std::string_view kValuesText;

}  // namespace duet
