// Bounds for ConfigReader::number that the number must not reach.
#pragma once

#include <limits>

namespace duet {

inline constexpr double kAboveZero = std::numeric_limits<double>::denorm_min();
inline constexpr double kBelowOne = 1.0 - std::numeric_limits<double>::epsilon() / 2;

}  // namespace duet
