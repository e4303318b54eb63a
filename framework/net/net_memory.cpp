// Where the tensors of a network lie.
#include <algorithm>
#include <tuple>

#include "core/arena.h"
#include "net/net.h"

namespace duet {
namespace {

// Of the implementations of a layer, which share it.
size_t state_bytes(const Net::Node& node) {
  size_t bytes = 0;
  for (const Net::Node::Step& step : node.steps) {
    bytes = std::max(bytes, step.op->state_bytes());
  }
  return bytes;
}

// A state is needed from the layer's first call to its last, and while gradients of its outputs are.
Lifetime lifetime_of_state(const NetPlan& plan, size_t layer, size_t bytes) {
  Lifetime state{.bytes = bytes, .first = static_cast<int>(plan.calls.size()), .last = -1};
  for (int i = 0; i < static_cast<int>(plan.calls.size()); ++i) {
    if (plan.calls[static_cast<size_t>(i)].layer != static_cast<int>(layer)) continue;
    state.first = std::min(state.first, i);
    state.last = i;
  }
  // Passes beside others read it too.
  for (int dy : plan.layers[layer].dy) {
    if (dy != kNoValue)
      state.last = std::max(state.last, plan.values[static_cast<size_t>(dy)].last);
  }
  return state;
}

}  // namespace

void Net::take_memory() {
  // The plan's values, then the layers' states, then what passes hand on.
  std::vector<Lifetime> needed;
  for (const PlannedValue& value : plan_.values) {
    needed.push_back({.bytes = value.desc.bytes(), .first = value.first, .last = value.last});
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    needed.push_back(lifetime_of_state(plan_, i, state_bytes(nodes_[i])));
  }
  const size_t connected = needed.size();
  for (const Connection& each : connections_) needed.push_back(each.lifetime);
  const Packing packing = pack(needed);
  for (const Lifetime& each : needed) unshared_bytes_ += align_up(each.bytes);
  activation_memory_ = Buffer(context_.device(), packing.bytes);
  fill_bytes(activation_memory_.data(), context_.device(), 0, packing.bytes);

  for (const auto& [name, value] : plan_.fields) {
    const auto number = static_cast<size_t>(value);
    fields_[name] = {plan_.values[number].desc, activation_memory_.at(packing.offsets[number])};
  }
  for (const auto& [name, value] : plan_.field_gradients) {
    // Of the field's desc: a view's gradient is its output's.
    field_gradients_[name] = {fields_[name].desc,
                              activation_memory_.at(packing.offsets[static_cast<size_t>(value)])};
  }
  const auto tensors = [&](const std::vector<int>& values, const std::vector<TensorDesc>& descs) {
    std::vector<Tensor> list(values.size());
    for (size_t i = 0; i < list.size(); ++i) {
      if (values[i] == kNoValue) continue;
      // Of this layer's desc: a view's output is its input under another shape.
      list[i] = {descs[i], activation_memory_.at(packing.offsets[static_cast<size_t>(values[i])])};
    }
    return list;
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const PlannedLayer& at = plan_.layers[i];
    const Layer& layer = *nodes_[i].layer;
    LayerTensors& t = nodes_[i].tensors;
    t.x = tensors(at.x, layer.inputs());
    t.y = tensors(at.y, layer.outputs());
    t.dx = tensors(at.dx, layer.inputs());
    t.dy = tensors(at.dy, layer.outputs());
    const Lifetime& state = needed[plan_.values.size() + i];
    if (state.bytes == 0) continue;
    t.state = {{{static_cast<int64_t>(state.bytes)}, DType::kUInt8},
               activation_memory_.at(packing.offsets[plan_.values.size() + i])};
  }
  for (size_t i = 0; i < connections_.size(); ++i) {
    set_ports(connections_[i], activation_memory_.at(packing.offsets[connected + i]));
  }
}

// A batch normalisation computes all its gradients in one pass. Those of its weights go to memory that all
// frozen ones share.
void Net::take_unwanted_memory() {
  size_t bytes = 0;
  std::vector<std::tuple<Node*, size_t, size_t>> places;  // of a gradient: its number and offset
  for (const Call& call : calls_) {
    if (call.step->pass != Pass::kBackward || !call.node->frozen) continue;
    ArenaPlan plan;
    const std::vector<ParameterSpec>& parameters = call.node->layer->parameters();
    for (size_t j = 0; j < parameters.size(); ++j) {
      if (!parameters[j].trained()) continue;
      places.emplace_back(call.node, j, plan.reserve(parameters[j].desc.bytes()));
    }
    bytes = std::max(bytes, plan.bytes());
  }
  unwanted_memory_ = Buffer(context_.device(), bytes);
  for (const auto& [node, number, offset] : places) {
    node->tensors.dw[number] = {node->layer->parameters()[number].desc,
                                unwanted_memory_.at(offset)};
  }
}

}  // namespace duet
