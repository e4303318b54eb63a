// Numbers that random data never hold, and that decide where a kernel compares or branches.
#pragma once

#include "measure/check/layer_data.h"

namespace duet {

/// The rows of a batch that has one of every kind.
inline constexpr int64_t kHardRows = 6;

/// As random_data(), but x is full of ties, zeros of both signs, denormal numbers and values of
/// 1e-20, and some of w and dy are zeros and denormal.
/// - In a layer that sums products every second channel of the output is a million times smaller
///   than the others: their weights and their dy are.
/// - Others have rows of very different levels, of one image or row of the batch each: these ties,
///   also as large as 1e4; -20 to -1000; -200 to -1000; 10 to 1000; 4000 and a little; a thousandth. A
///   layer that normalises over the batch has channels of 4000 and a little instead.
/// - If `finite` is false, x has the ties everywhere, among them NaN and infinities.
LayerData hard_data(const Layer& layer, bool finite, uint64_t seed);

}  // namespace duet
