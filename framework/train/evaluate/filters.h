// What a network has learnt and what it makes of an image, as pictures.
#pragma once

#include <cstdint>
#include <vector>

#include "data/format/image.h"

namespace duet {

/// Every filter of a convolution in a tile: grey is 0, white the largest absolute weight of all and
/// black its negative. Filters of three channels are in colours; of others than one and three, each
/// channel has a tile, a row of them a filter. `weights` are K x C x R x S; at most kMostTiles are
/// shown.
Image filter_picture(const std::vector<float>& weights, const std::vector<int64_t>& shape);

/// Every channel of a layer's output for one image in a tile: black is the least value of all,
/// white the largest. `values` are C x H x W; at most kMostTiles are shown.
Image activation_picture(const std::vector<float>& values, const std::vector<int64_t>& shape);

inline constexpr int64_t kMostTiles = 1024;

}  // namespace duet
