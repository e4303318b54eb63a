#include "net/ports.h"

#include <algorithm>
#include <stdexcept>

namespace duet {
namespace {

enum class Form { kMoments, kStaged };

struct PortRow {
  Port port;
  std::string_view name;
  Form form;
  std::vector<int> PlannedLayer::*value;  // of which tensor; nullptr: of the weight
};
constexpr PortRow kRows[] = {{&Ports::x_moments, "moments", Form::kMoments, &PlannedLayer::x},
                             {&Ports::y_moments, "moments", Form::kMoments, &PlannedLayer::y},
                             {&Ports::staged_x, "x", Form::kStaged, &PlannedLayer::x},
                             {&Ports::staged_dy, "dy", Form::kStaged, &PlannedLayer::dy},
                             {&Ports::staged_w, "w", Form::kStaged, nullptr}};

/// nullptr for prepared_w, which no pass leaves.
const PortRow* row_of(Port port) {
  const auto* const found = std::find_if(std::begin(kRows), std::end(kRows),
                                         [&](const PortRow& row) { return row.port == port; });
  return found == std::end(kRows) ? nullptr : found;
}

class Connector {
 public:
  Connector(const std::vector<ResolvedLayer>& layers, const NetPlan& plan,
            const std::vector<std::vector<PortUse>>& uses)
      : layers_(layers), plan_(plan), uses_(uses) {}

  std::vector<Connection> connect() const {
    std::vector<Connection> all;
    for (int call = 0; call < static_cast<int>(uses_.size()); ++call) {
      for (const PortUse& use : uses_[static_cast<size_t>(call)]) {
        const bool leaves = use.access == PortUse::Access::kLeaves;
        if (!leaves || !layers_[layer(call)].hands_on) continue;
        Connection connection{{call, use.port}, {}, use.desc, {}};
        if (add_takers(connection)) all.push_back(std::move(connection));
      }
    }
    return all;
  }

 private:
  size_t layer(int call) const {
    return static_cast<size_t>(plan_.calls[static_cast<size_t>(call)].layer);
  }

  /// Returns false if nobody gains from it.
  bool add_takers(Connection& connection) const {
    bool pays = false;
    for (int call = connection.from.call + 1; call < static_cast<int>(uses_.size()); ++call) {
      for (const PortUse& use : uses_[static_cast<size_t>(call)]) {
        if (use.access != PortUse::Access::kTakes || !fits(connection, call, use)) continue;
        connection.to.push_back({call, use.port});
        pays |= use.pays;
      }
    }
    connection.lifetime = {.bytes = connection.desc.bytes(), .first = connection.from.call};
    int& last = connection.lifetime.last;
    last = last_beside(plan_, connection.from.call);
    for (const Connection::End& to : connection.to) {
      last = std::max(last, last_beside(plan_, to.call));
    }
    return pays;
  }

  bool fits(const Connection& connection, int call, const PortUse& use) const {
    const size_t from = layer(connection.from.call), to = layer(call);
    const PortRow *const left = row_of(connection.from.port), *const taken = row_of(use.port);
    if (!left || !taken || left->form != taken->form || layers_[to].frozen) return false;
    const bool any = use.desc.shape.rank() == 0;
    if (!any && !(use.desc == connection.desc)) return false;
    if (left->form == Form::kStaged) return from == to && left == taken;
    // A view's output is its input under another shape, with other channels.
    return value(from, *left) == value(to, *taken) &&
           layers_[from].layer->outputs()[0] == layers_[to].layer->inputs()[0];
  }

  int value(size_t layer, const PortRow& row) const { return (plan_.layers[layer].*row.value)[0]; }

  const std::vector<ResolvedLayer>& layers_;
  const NetPlan& plan_;
  const std::vector<std::vector<PortUse>>& uses_;
};

}  // namespace

std::string_view name_of(Port port) {
  const PortRow* const row = row_of(port);
  if (!row) throw std::logic_error("a port that is not handed on");
  return row->name;
}

std::vector<Connection> connect(const std::vector<ResolvedLayer>& layers, const NetPlan& plan,
                                const std::vector<std::vector<PortUse>>& uses) {
  return Connector(layers, plan, uses).connect();
}

}  // namespace duet
