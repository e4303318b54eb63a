// What is named while a GPU replays a graph of a whole network.
#pragma once

#include <optional>

#include "compare/arms.h"
#include "core/running.h"

namespace duet {

/// While it lives, the arm's graph of `what` ("a training step") runs, as nobody knows which of its
/// implementations does. Nothing on a CPU, where each layer tells that it runs. One a replay: the
/// watchdog ends what lives for too long.
inline std::optional<Running> running_graph(RunningArm& arm, const char* what) {
  if (arm.context().device() == Device::kCpu) return {};
  return std::optional<Running>(std::in_place, "arm " + arm.arm().name, "the graph of", what);
}

}  // namespace duet
