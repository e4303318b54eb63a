#pragma once

#include <string>

#include "data/dataset.h"

namespace duet {

/// 16 hexadecimal digits that are others, but for chance, if any image or label is another or they
/// come in another order. Not safe against intent.
std::string fingerprint(const Dataset& dataset);

}  // namespace duet
