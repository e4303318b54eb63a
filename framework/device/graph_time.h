// The time of GPU work as a training step spends it: in a CUDA graph, where a launch costs little.
// What an implementation chooses between in prepare() is timed with this.
#pragma once

#include <functional>
#include <limits>

#include "device/context.h"

namespace duet {

/// Median of the microseconds that what `queue` puts on context.stream() takes, repeated back to
/// back in a graph. Work that one replay shows to take longer than `hopeless` is not timed any
/// further; what is returned then is above `hopeless` and coarse. Throws DeviceError if `queue`
/// fails or cannot be captured. Synchronises. REQUIRES: a GPU context; nothing is being captured.
double microseconds_in_graph(Context& context, const std::function<void()>& queue,
                             double hopeless = std::numeric_limits<double>::infinity());

}  // namespace duet
