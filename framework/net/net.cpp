#include "net/net.h"

#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "core/error.h"
#include "core/running.h"
#include "device/gpu_state.h"
#include "device/range.h"

namespace duet {
namespace {

bool all_finite(const Tensor& tensor, Device device) {
  if (!tensor || tensor.desc.dtype != DType::kFloat32) return true;
  std::vector<float> values(tensor.elements());
  copy_bytes(values.data(), Device::kCpu, tensor.memory, device, tensor.bytes());
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

std::vector<ResolvedLayer> without_loss(std::vector<ResolvedLayer> layers) {
  if (!layers.empty() && layers.back().layer->takes_labels()) layers.pop_back();
  return layers;
}

Net::Net(const std::vector<ResolvedLayer>& layers, Weights& weights, Context& context, Mode mode)
    : context_(context), weights_(weights), mode_(mode) {
  make_implementations(layers);
  plan_memory();
  plan_calls();
}

bool Net::runs_here(const ResolvedLayer& layer, Pass pass) const {
  return runs(layer, pass) && (pass == Pass::kForward || mode_ == Mode::kTraining);
}

void Net::make_implementations(const std::vector<ResolvedLayer>& layers) {
  for (const ResolvedLayer& resolved : layers) {
    Node node{.name = resolved.name, .layer = resolved.layer, .inputs = resolved.inputs};
    for (const PassChoice& choice : resolved.passes) {
      Implementation* implementation = nullptr;
      for (const Node::Step& step : node.steps) {
        if (step.id == choice.id) implementation = step.implementation;
      }
      if (!implementation) {
        const Running running(choice.id, resolved.layer->type(), "constructor", resolved.name);
        node.implementations.push_back(resolved.layer->make(choice.id, context_));
        implementation = node.implementations.back().get();
      }
      const bool runs = runs_here(resolved, choice.pass);
      if (runs) {
        const Running running(choice.id, resolved.layer->type(), "prepare", resolved.name);
        implementation->prepare(choice.pass, context_);
      }
      node.steps.push_back(
          {choice.pass, choice.id, choice.shared, runs, implementation,
           resolved.name + " " + std::string(to_string(choice.pass)) + " " + choice.id});
    }
    nodes_.push_back(std::move(node));
  }
}

void Net::plan_memory() {
  // Reserve first, point later: every tensor notes its offset.
  ArenaPlan plan;
  std::vector<std::pair<Tensor*, size_t>> placed;
  const auto place = [&](Tensor& tensor, const TensorDesc& desc) {
    tensor.desc = desc;
    placed.emplace_back(&tensor, plan.reserve(desc.bytes()));
  };
  const bool training = mode_ == Mode::kTraining;
  for (Node& node : nodes_) {
    LayerTensors& t = node.tensors;
    const Layer& layer = *node.layer;
    t.x.resize(layer.inputs().size());
    t.dx.resize(layer.inputs().size());
    t.y.resize(layer.outputs().size());
    t.dy.resize(layer.outputs().size());
    if (&node == &nodes_.front()) place(t.x[0], layer.inputs()[0]);
    if (layer.takes_labels()) place(t.x[1], layer.inputs()[1]);
    if (!layer.is_view(Pass::kForward)) {
      for (size_t j = 0; j < t.y.size(); ++j) place(t.y[j], layer.outputs()[j]);
    }
    if (layer.takes_labels() && training) place(t.dy[0], layer.outputs()[0]);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (training && node.inputs[k].gradient && !layer.is_view(Pass::kBackward)) {
        place(t.dx[k], layer.inputs()[k]);
      }
    }
    size_t state_bytes = 0;
    for (const Node::Step& step : node.steps) {
      state_bytes = std::max(state_bytes, step.implementation->state_bytes());
      if (step.runs) {
        workspace_bytes_ =
            std::max(workspace_bytes_, step.implementation->workspace_bytes(step.pass));
      }
    }
    if (state_bytes) {
      place(t.state, {{static_cast<int64_t>(state_bytes)}, DType::kUInt8});
    }
  }
  activation_memory_ = Buffer(context_.device(), plan.bytes());
  fill_bytes(activation_memory_.data(), context_.device(), 0, plan.bytes());
  for (auto& [tensor, offset] : placed) tensor->memory = activation_memory_.at(offset);
  // A kernel that writes a little beyond its workspace is compare's to find: it must not stop the
  // process before that.
  constexpr size_t kSlack = 4096;
  workspace_ = Buffer(context_.device(), workspace_bytes_ + kSlack);
  use_weights();
  share_views();
  if (!training) {
    step_ = Buffer(context_.device(), sizeof(uint64_t));
    fill_bytes(step_.data(), context_.device(), 0, step_.bytes());
    return;
  }
  // d loss / d loss = 1 starts the backward pass.
  const Tensor& dloss = nodes_.back().tensors.dy[0];
  const float one = 1.0f;
  const double one_double = 1.0;
  const void* from = dloss.desc.dtype == DType::kFloat64 ? static_cast<const void*>(&one_double)
                                                         : static_cast<const void*>(&one);
  copy_bytes(dloss.memory, context_.device(), from, Device::kCpu, dloss.bytes());
}

void Net::use_weights() {
  if (mode_ == Mode::kTraining) {
    gradient_memory_ = Buffer(context_.device(), weights_.trained().bytes());
    fill_bytes(gradient_memory_.data(), context_.device(), 0, gradient_memory_.bytes());
  }
  size_t number = 0;
  for (Node& node : nodes_) {
    for (const ParameterSpec& spec : node.layer->parameters()) {
      const Parameter& parameter = weights_.parameters().at(number++);
      if (!(parameter.spec.desc == spec.desc)) {
        throw std::logic_error("the weights are of another network: " + parameter.name);
      }
      const bool has_gradient = gradient_memory_.bytes() && spec.trained();
      node.tensors.w.push_back(weights_.view(parameter));
      node.tensors.dw.push_back(has_gradient ? Weights::view(parameter, gradients()) : Tensor());
    }
  }
}

// A layer's input is the memory of what it reads, an output's gradient that of its reader's input;
// views pass on what they are given.
void Net::share_views() {
  for (Node& node : nodes_) {
    LayerTensors& t = node.tensors;
    const std::vector<TensorDesc>& x = node.layer->inputs();
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      const InputSource& source = node.inputs[k];
      t.x[k] = {x[k], source.layer == kImages ? nodes_.front().tensors.x[0].memory
                                              : nodes_[static_cast<size_t>(source.layer)]
                                                    .tensors.y[static_cast<size_t>(source.output)]
                                                    .memory};
    }
    if (!node.layer->is_view(Pass::kForward)) continue;
    for (size_t j = 0; j < t.y.size(); ++j) t.y[j] = {node.layer->outputs()[j], t.x[0].memory};
  }
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    LayerTensors& t = node->tensors;
    for (size_t k = 0; k < node->inputs.size(); ++k) {
      const InputSource& source = node->inputs[k];
      if (!source.gradient || mode_ == Mode::kInference) continue;
      if (node->layer->is_view(Pass::kBackward)) {
        t.dx[k] = {node->layer->inputs()[k], t.dy[0].memory};
      }
      Node& from = nodes_[static_cast<size_t>(source.layer)];
      const auto output = static_cast<size_t>(source.output);
      from.tensors.dy[output] = {from.layer->outputs()[output], t.dx[k].memory};
    }
  }
}

void Net::plan_calls() {
  for (Node& node : nodes_) {
    for (const Node::Step& step : node.steps) {
      if (step.pass == Pass::kForward && step.runs) calls_.push_back({&node, &step});
    }
  }
  forward_calls_ = calls_.size();
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    for (const Node::Step& step : node->steps) {
      if (step.pass != Pass::kForward && step.runs) calls_.push_back({&*node, &step});
    }
  }
}

void Net::run(Node& node, const Node::Step& step) {
  const Range range(step.label);
  const auto named = [&](const std::string& what) {
    return DeviceError(what + " (layer " + node.name + ", " + step.id + ", " +
                       std::string(to_string(step.pass)) + ", " + node.layer->problem_text() + ")");
  };
  context_.set_workspace(workspace_.data(), workspace_bytes_);
  try {
    const Running running(step.id, node.layer->type(), to_string(step.pass), node.name);
    step.implementation->run(step.pass, context_, node.tensors);
  } catch (const DeviceError& e) {
    throw named(e.what());
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw named(e.what());
  } catch (...) {
    throw named("it threw what is no std::exception");
  }
  if (context_.device() == Device::kCpu) return;
  if (const std::string error = gpu::take_error(); !error.empty()) {
    throw named("it left a CUDA error behind: " + error);
  }
}

void Net::forward() {
  if (mode_ == Mode::kInference) {
    context_.set_training(false);
    context_.set_step(static_cast<const uint64_t*>(step_.data()));
  }
  for (size_t i = 0; i < forward_calls_; ++i) run(*calls_[i].node, *calls_[i].step);
}

void Net::backward() {
  for (size_t i = forward_calls_; i < calls_.size(); ++i) run(*calls_[i].node, *calls_[i].step);
}

size_t Net::memory_bytes() const {
  return gradient_memory_.bytes() + activation_memory_.bytes() + workspace_.bytes();
}

std::string Net::find_non_finite() const {
  const Device device = context_.device();
  for (const Node& node : nodes_) {
    const LayerTensors& t = node.tensors;
    for (size_t j = 0; j < t.w.size(); ++j) {
      if (!all_finite(t.w[j], device)) {
        return "parameter " + node.layer->parameters()[j].name + " of layer " + node.name;
      }
    }
    if (&node == &nodes_.front() && !all_finite(t.x[0], device)) return "the input images";
    if (!all_finite(t.y[0], device)) return "the output of layer " + node.name;
  }
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    for (const Tensor& dw : node->tensors.dw) {
      if (!all_finite(dw, device)) return "a parameter gradient of layer " + node->name;
    }
    for (const Tensor& dx : node->tensors.dx) {
      if (!all_finite(dx, device)) return "the input gradient of layer " + node->name;
    }
  }
  return "";
}

}  // namespace duet
