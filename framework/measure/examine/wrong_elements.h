// Where the wrong elements of a tensor lie, as text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/tensor.h"

namespace duet {

enum class ElementState : uint8_t { kRight, kWrong, kNotFinite };

/// For each axis of more than one index those that hold something wrong, and below a grid of the
/// last two of these axes, of at most 32 x 16 cells:
///
///   n: all 64; c: 0 to 7 of 128; h: 12 of 13; w: all 13
///    h\w 0123456789012
///      0 .............
///    ...
///     12 #############
///
/// A cell stands for its elements in all images and channels that hold something wrong. Lines are
/// separated by "\n"; "" if nothing is wrong, or there is but one element. REQUIRES: an element for each of the tensor's, in the
/// order of its memory.
std::string picture_of(const TensorDesc& desc, const std::vector<ElementState>& elements);

}  // namespace duet
