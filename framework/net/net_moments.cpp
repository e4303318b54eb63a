// Which layers hand the moments of their output on, and where these lie.
#include <algorithm>

#include "net/net.h"

namespace duet {
namespace {

Implementation* forward_of(const Net::Node& node) {
  const auto found = std::find_if(
      node.steps.begin(), node.steps.end(),
      [](const Net::Node::Step& step) { return step.pass == Pass::kForward && step.runs; });
  return found == node.steps.end() ? nullptr : found->implementation;
}

}  // namespace

std::string Net::Node::detail(const Step& step) const {
  std::string text = step.implementation->detail(step.pass);
  const auto add = [&](const std::string& more) {
    text += text.empty() || more.empty() ? more : ", " + more;
  };
  if (step.pass == Pass::kForward) add(handed);
  add(step.left);
  return text;
}

void Net::hand_moments_on(const std::vector<ResolvedLayer>& layers) {
  if (mode_ != Mode::kTraining) return;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!layers[i].hands_on) continue;
    auto* const leaves = dynamic_cast<LeavesMoments*>(forward_of(nodes_[i]));
    if (!leaves || leaves->moment_parts() == 0) continue;
    const int y = plan_.layers[i].y[0];
    HandedMoments handed{i, {}};
    for (int reader : plan_.values[static_cast<size_t>(y)].readers) {
      const auto to = static_cast<size_t>(reader);
      auto* const takes = dynamic_cast<TakesMoments*>(forward_of(nodes_[to]));
      // A view's output is its input under another shape, with other channels.
      if (!takes || !takes->wants_moments() || nodes_[to].frozen ||
          !(layers[to].layer->inputs()[0] == layers[i].layer->outputs()[0]))
        continue;
      nodes_[to].takes = takes;
      nodes_[to].handed = "moments from " + nodes_[i].name;
      nodes_[i].handed += (handed.to.empty() ? "moments to " : ", ") + nodes_[to].name;
      handed.to.push_back(to);
    }
    if (handed.to.empty()) continue;
    nodes_[i].leaves = leaves;
    nodes_[i].moments.parts = leaves->moment_parts();
    handed_.push_back(std::move(handed));
  }
}

Lifetime Net::lifetime_of(const HandedMoments& handed) const {
  const Node& from = nodes_[handed.from];
  Lifetime lifetime{
      .bytes = ChannelMoments::bytes(from.layer->outputs()[0].shape[1], from.moments.parts),
      .first = call_of(handed.from, Pass::kForward)};
  for (size_t to : handed.to) {
    lifetime.last = std::max(lifetime.last, call_of(to, Pass::kForward));
  }
  return lifetime;
}

int Net::call_of(size_t layer, Pass pass) const {
  const auto found =
      std::find_if(plan_.calls.begin(), plan_.calls.end(), [&](const PlannedCall& call) {
        return call.layer == static_cast<int>(layer) && call.pass == pass;
      });
  return static_cast<int>(found - plan_.calls.begin());
}

void Net::set_moments(const HandedMoments& handed, void* memory) {
  Node& from = nodes_[handed.from];
  from.moments = ChannelMoments::at(memory, from.layer->outputs()[0].shape[1], from.moments.parts);
  for (size_t to : handed.to) nodes_[to].moments = from.moments;
}

}  // namespace duet
