// The port by which forward of conv2d leaves the moments of y, for a batch normalisation behind it.
#pragma once

#include <vector>

#include "core/channel_moments.h"
#include "layers/conv2d/conv2d.h"

namespace duet {

/// Of `parts`; none if that is 0.
inline std::vector<PortUse> y_moments_of(int parts, int64_t channels) {
  if (parts == 0) return {};
  return {{&Ports::y_moments, PortUse::Access::kLeaves, ChannelMoments::desc(channels, parts)}};
}

}  // namespace duet
