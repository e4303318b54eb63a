// Where the tensors of a network lie: which calls need which, and who shares memory.
#include <algorithm>

#include "core/arena.h"
#include "net/net.h"

namespace duet {
namespace {

constexpr int kNowhere = -1;

// As LayerTensors, but for each tensor the number of the memory it lies in.
struct Places {
  std::vector<int> x, y, dx, dy;
  int state = kNowhere;

  explicit Places(const Layer& layer)
      : x(layer.inputs().size(), kNowhere), y(layer.outputs().size(), kNowhere), dx(x), dy(y) {}
};

// Of the implementations of a layer, which share it.
size_t state_bytes(const Net::Node& node) {
  size_t bytes = 0;
  for (const Net::Node::Step& step : node.steps) {
    bytes = std::max(bytes, step.implementation->state_bytes());
  }
  return bytes;
}

class MemoryPlan {
 public:
  MemoryPlan(const std::vector<Net::Node>& nodes, const std::vector<Net::Call>& calls,
             bool training)
      : nodes_(nodes), calls_(calls), training_(training) {
    for (const Net::Node& node : nodes) places_.emplace_back(*node.layer);
    place_values();
    place_gradients();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (const size_t bytes = state_bytes(nodes[i])) places_[i].state = memory(bytes);
    }
    set_lifetimes();
    packing_ = pack(memories_);
  }

  const Places& places(size_t node) const { return places_[node]; }
  size_t bytes() const { return packing_.bytes; }
  size_t offset(int place) const { return packing_.offsets[static_cast<size_t>(place)]; }
  /// If nothing shared memory.
  size_t unshared_bytes() const {
    size_t bytes = 0;
    for (const Lifetime& memory : memories_) bytes += align_up(memory.bytes);
    return bytes;
  }

 private:
  int memory(size_t bytes) {
    memories_.push_back({.bytes = bytes, .first = static_cast<int>(calls_.size()), .last = -1});
    return static_cast<int>(memories_.size()) - 1;
  }

  // A layer's input is what another made; a view's output is its input.
  void place_values() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      const Net::Node& node = nodes_[i];
      const Layer& layer = *node.layer;
      Places& at = places_[i];
      if (i == 0) images_ = memory(layer.inputs()[0].bytes());
      if (layer.takes_labels()) at.x.back() = labels_ = memory(layer.inputs().back().bytes());
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const InputSource& from = node.inputs[k];
        at.x[k] =
            from.layer == kImages
                ? images_
                : places_[static_cast<size_t>(from.layer)].y[static_cast<size_t>(from.output)];
      }
      for (size_t j = 0; j < at.y.size(); ++j) {
        at.y[j] = layer.is_view(Pass::kForward) ? at.x[0] : memory(layer.outputs()[j].bytes());
      }
    }
  }

  // The gradient of an output is that of the input which reads it; a view's input has its output's.
  void place_gradients() {
    if (!training_) return;
    for (size_t i = nodes_.size(); i-- > 0;) {
      const Net::Node& node = nodes_[i];
      const Layer& layer = *node.layer;
      Places& at = places_[i];
      if (layer.takes_labels()) at.dy[0] = dloss_ = memory(layer.outputs()[0].bytes());
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        const InputSource& from = node.inputs[k];
        if (!from.gradient) continue;
        at.dx[k] = layer.is_view(Pass::kBackward) ? at.dy[0] : memory(layer.inputs()[k].bytes());
        places_[static_cast<size_t>(from.layer)].dy[static_cast<size_t>(from.output)] = at.dx[k];
      }
    }
  }

  void need(int place, int moment) {
    if (place == kNowhere) return;
    Lifetime& memory = memories_[static_cast<size_t>(place)];
    memory.first = std::min(memory.first, moment);
    memory.last = std::max(memory.last, moment);
  }
  void need(const std::vector<int>& places, int moment) {
    for (int place : places) need(place, moment);
  }

  // Moment i is call i. A pass may read all that the layer has but the gradients of others' inputs.
  void set_lifetimes() {
    const int end = static_cast<int>(calls_.size());
    int last_forward = 0;
    for (int i = 0; i < end; ++i) {
      const Net::Call& call = calls_[static_cast<size_t>(i)];
      const Pass pass = call.step->pass;
      const Places& at = places_[static_cast<size_t>(call.node - nodes_.data())];
      need(at.x, i);
      need(at.y, i);
      need(at.state, i);
      if (pass == Pass::kForward) {
        last_forward = i;
        continue;
      }
      need(at.dy, i);
      if (pass != Pass::kBackwardFilter) need(at.dx, i);
    }
    // What comes in, goes out or is set once and for all.
    for (int place : {images_, labels_, dloss_}) {
      need(place, -1);
      need(place, end);
    }
    if (!nodes_.empty()) need(places_.back().y, end);
    if (!training_) return;
    // A training's forward also evaluates, and all it makes can be looked at afterwards.
    for (const Places& at : places_) need(at.y, last_forward);
  }

  const std::vector<Net::Node>& nodes_;
  const std::vector<Net::Call>& calls_;
  const bool training_;
  std::vector<Places> places_;
  std::vector<Lifetime> memories_;
  int images_ = kNowhere, labels_ = kNowhere, dloss_ = kNowhere;
  Packing packing_;
};

}  // namespace

void Net::take_memory() {
  const MemoryPlan plan(nodes_, calls_, mode_ == Mode::kTraining);
  const Device device = context_.device();
  unshared_bytes_ = plan.unshared_bytes();
  activation_memory_ = Buffer(device, plan.bytes());
  fill_bytes(activation_memory_.data(), device, 0, plan.bytes());
  const auto tensors = [&](const std::vector<int>& places, const std::vector<TensorDesc>& descs) {
    std::vector<Tensor> list(places.size());
    for (size_t i = 0; i < list.size(); ++i) {
      if (places[i] == kNowhere) continue;
      list[i] = {descs[i], activation_memory_.at(plan.offset(places[i]))};
    }
    return list;
  };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Places& at = plan.places(i);
    const Layer& layer = *nodes_[i].layer;
    LayerTensors& t = nodes_[i].tensors;
    t.x = tensors(at.x, layer.inputs());
    t.y = tensors(at.y, layer.outputs());
    t.dx = tensors(at.dx, layer.inputs());
    t.dy = tensors(at.dy, layer.outputs());
    if (at.state == kNowhere) continue;
    t.state = {{{static_cast<int64_t>(state_bytes(nodes_[i]))}, DType::kUInt8},
               activation_memory_.at(plan.offset(at.state))};
  }
}

}  // namespace duet
