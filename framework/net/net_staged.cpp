// Which passes of a layer share staged tensors, and how long these are needed.
#include <algorithm>

#include "net/net.h"

namespace duet {
namespace {

/// Who leaves a tensor, and to whom.
struct Sharing {
  Pass from, to;
  size_t StagedBytes::*bytes;
  Tensor StagedTensors::*tensor;
  const char* name;
};
constexpr Sharing kSharings[] = {
    {Pass::kForward, Pass::kBackwardFilter, &StagedBytes::x, &StagedTensors::x, "x"},
    {Pass::kForward, Pass::kBackwardData, &StagedBytes::w, &StagedTensors::w, "w"},
    {Pass::kBackwardFilter, Pass::kBackwardData, &StagedBytes::dy, &StagedTensors::dy, "dy"}};

Net::Node::Step* step_of(Net::Node& node, Pass pass) {
  const auto found =
      std::find_if(node.steps.begin(), node.steps.end(),
                   [&](const Net::Node::Step& step) { return step.pass == pass && step.runs; });
  return found == node.steps.end() ? nullptr : &*found;
}

/// Returns true if a pass takes moments or prepared weights: Net::run() runs it in another way, which
/// shares nothing.
bool runs_otherwise(Net::Node& node) {
  const Net::Node::Step* const forward = step_of(node, Pass::kForward);
  const auto* const prepared =
      forward ? dynamic_cast<InferenceForward*>(forward->implementation) : nullptr;
  return node.takes || (prepared && prepared->serves_training());
}

}  // namespace

void Net::share_staged(const std::vector<ResolvedLayer>& layers) {
  if (mode_ != Mode::kTraining) return;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (!layers[i].hands_on || runs_otherwise(node)) continue;
    for (const Sharing& sharing : kSharings) {
      Node::Step *const from = step_of(node, sharing.from), *const to = step_of(node, sharing.to);
      if (!from || !to) continue;
      auto* const leaves = dynamic_cast<SharesStaged*>(from->implementation);
      auto* const takes = dynamic_cast<SharesStaged*>(to->implementation);
      if (!leaves || !takes) continue;
      const size_t bytes = leaves->staged_bytes(sharing.from).*sharing.bytes;
      if (bytes == 0 || takes->staged_bytes(sharing.to).*sharing.bytes != bytes) continue;
      from->shares = leaves, to->shares = takes;
      from->left += (from->left.empty() ? "" : ", ") + std::string(sharing.name) + " to " +
                    std::string(to_string(sharing.to));
      Lifetime lifetime{
          .bytes = bytes, .first = call_of(i, sharing.from), .last = call_of(i, sharing.to)};
      // Beside other passes backward_filter reads them as long as dy.
      if (sharing.tensor != &StagedTensors::w) {
        const auto dy = static_cast<size_t>(plan_.layers[i].dy[0]);
        lifetime.last = std::max(lifetime.last, plan_.values[dy].last);
      }
      staged_.push_back({&node, sharing.tensor, lifetime});
    }
  }
}

}  // namespace duet
