// Numbers that random data never hold, and that decide where a kernel compares or branches.
#pragma once

#include "measure/layer_data.h"

namespace duet {

/// As random_data(), but x is full of ties, zeros of both signs and values as small as 1e-20; in a
/// layer without parameters also as large as 1e4 and, if `finite` is false, NaN and infinities. In
/// a layer with parameters every second channel of the output is a million times smaller than the
/// others: their weights and their dy are.
LayerData hard_data(const Layer& layer, bool finite, uint64_t seed);

}  // namespace duet
