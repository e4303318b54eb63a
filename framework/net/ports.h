// Connects the ports (core/ports.h) of the passes of a training step.
#pragma once

#include <string_view>
#include <vector>

#include "core/arena.h"
#include "net/plan.h"

namespace duet {

/// Memory that one pass leaves and others take, by their numbers in NetPlan::calls.
struct Connection {
  struct End {
    int call;
    Port port;
  };

  End from;
  std::vector<End> to;  // at least one
  TensorDesc desc;
  Lifetime lifetime;
};

/// What is handed on, for tables: "moments", "x".
std::string_view name_of(Port port);

/// `uses` are those of each call of the plan. A port that a pass leaves is connected with all later
/// passes that take the same form of the same tensor in the same description, if one of them says
/// that it pays. Staged tensors stay in their layer; nothing goes to a frozen layer, nor from one that
/// does not hand on (ResolvedLayer::hands_on).
std::vector<Connection> connect(const std::vector<ResolvedLayer>& layers, const NetPlan& plan,
                                const std::vector<std::vector<PortUse>>& uses);

}  // namespace duet
