// The ports of a network: what its passes hand to each other, and what it prepares of its weights.
#include <algorithm>

#include "net/net.h"

namespace duet {
namespace {

void add(std::string& text, const std::string& more) {
  text += text.empty() || more.empty() ? more : ", " + more;
}

/// What the pass takes of Ports::prepared_w; an empty desc if nothing.
TensorDesc prepared_desc(const Net::Node::Step& step, bool inference) {
  if (!step.runs) return {};
  for (const PortUse& use : step.op->ports(step.pass, inference)) {
    if (use.port == &Ports::prepared_w) return use.desc;
  }
  return {};
}

}  // namespace

std::string Net::Node::detail(const Step& step) const {
  std::string text = step.op->detail(step.pass);
  add(text, step.handed);
  return text;
}

const Net::Node::Step* Net::Node::step(Pass pass) const {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.pass == pass; });
  return found == steps.end() ? nullptr : &*found;
}

void Net::connect_ports(const std::vector<ResolvedLayer>& layers) {
  if (mode_ != Mode::kTraining) return;
  std::vector<std::vector<PortUse>> uses;
  for (const Call& call : calls_) {
    uses.push_back(call.step->op->ports(call.step->pass, false));
  }
  connections_ = connect(layers, plan_, uses);
  for (const Connection& connection : connections_) {
    const auto node_of = [&](int call) -> const Node& {
      return *calls_[static_cast<size_t>(call)].node;
    };
    Node::Step& from = step_of(connection.from.call);
    const Node& leaver = node_of(connection.from.call);
    std::string takers;
    for (const Connection::End& to : connection.to) {
      Node::Step& taker = step_of(to.call);
      const bool inside = &node_of(to.call) == &leaver;
      add(takers, inside ? std::string(to_string(taker.pass)) : node_of(to.call).name);
      if (inside) continue;
      add(taker.handed, std::string(name_of(to.port)) + " from " + leaver.name);
    }
    from.left.push_back(connection.from.port);
    add(from.handed, std::string(name_of(connection.from.port)) + " to " + takers);
  }
}

Net::Node::Step& Net::step_of(int call) {
  const Call& of = calls_[static_cast<size_t>(call)];
  return of.node->steps[static_cast<size_t>(of.step - of.node->steps.data())];
}

void Net::set_ports(const Connection& connection, void* memory) {
  const Tensor tensor = {connection.desc, memory};
  step_of(connection.from.call).ports.*connection.from.port = tensor;
  for (const Connection::End& to : connection.to) step_of(to.call).ports.*to.port = tensor;
}

// Where backward passes of an evaluation follow, forward has to leave what they need, so that nothing
// is inference.
void Net::take_prepared_memory() {
  if (mode_ == Mode::kGradients) return;
  ArenaPlan plan;
  std::vector<std::pair<Node*, size_t>> places;
  for (Node& node : nodes_) {
    const Node::Step* const forward = node.step(Pass::kForward);
    if (!forward) continue;
    node.prepared_w.desc = prepared_desc(*forward, true);
    if (node.prepared_w.desc.shape.rank() == 0) continue;
    places.emplace_back(&node, plan.reserve(node.prepared_w.bytes()));
    for (Node::Step& step : node.steps) {
      step.takes_prepared =
          step.op == forward->op && prepared_desc(step, false) == node.prepared_w.desc;
    }
  }
  prepared_memory_ = Buffer(context_.device(), plan.bytes());
  for (const auto& [node, offset] : places) node->prepared_w.memory = prepared_memory_.at(offset);
}

void Net::prepare_weights() {
  if (prepared_version_ == weights_.version()) return;
  prepared_version_ = weights_.version();
  const auto* const number = static_cast<const uint64_t*>(step_.data());
  for (const Node& node : nodes_) {
    if (!node.prepared_w) continue;
    const Run run{.context = context_,
                  .step = number,
                  .training = false,
                  .inference = true,
                  .ports = {.prepared_w = node.prepared_w}};
    node.step(Pass::kForward)->op->prepare_weights(run, node.tensors);
  }
}

bool Net::prepare_aside() {
  prepares_aside_ = true;
  std::vector<const Node*> nodes;
  for (size_t i = 0; i < plan_.forward_calls; ++i) {
    if (takes_prepared(calls_[i])) nodes.push_back(calls_[i].node);
  }
  prepares_aside_ = !nodes.empty();
  if (!prepares_aside_) return false;
  aside_->follow_main();
  const auto* const number = static_cast<const uint64_t*>(step_.data());
  for (const Node* node : nodes) {
    const Run run{
        .context = aside_->context(), .step = number, .ports = {.prepared_w = node->prepared_w}};
    node->step(Pass::kForward)->op->prepare_weights(run, node->tensors);
  }
  return true;
}

bool Net::takes_prepared(const Call& call) const {
  return prepares_aside_ && call.step->takes_prepared;
}

}  // namespace duet
