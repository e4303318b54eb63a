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

// Calls visit(physical offset, logical row-major offset) for every element.
template <class Visit>
void for_each_element(const TensorDesc& desc, Visit&& visit) {
  if (desc.shape.rank() != 4 || desc.layout == Layout::kNCHW) {
    for (int64_t i = 0; i < desc.elements(); ++i) visit(i, i);
    return;
  }
  const Shape& s = desc.shape;
  int64_t logical = 0;
  for (int64_t a = 0; a < s[0]; ++a) {
    for (int64_t b = 0; b < s[1]; ++b) {
      for (int64_t c = 0; c < s[2]; ++c) {
        for (int64_t d = 0; d < s[3]; ++d) visit(offset_of(desc, a, b, c, d), logical++);
      }
    }
  }
}

// Calls use(values) with room for a parameter's values as they lie in memory.
template <class Use>
void with_physical_values(const TensorDesc& desc, Use&& use) {
  if (desc.dtype == DType::kFloat64) return use(std::vector<double>(desc.elements()));
  use(std::vector<float>(desc.elements()));
}

bool all_finite(const Tensor& tensor, Device device) {
  if (!tensor || tensor.desc.dtype != DType::kFloat32) return true;
  std::vector<float> values(tensor.elements());
  copy_bytes(values.data(), Device::kCpu, tensor.memory, device, tensor.bytes());
  return std::all_of(values.begin(), values.end(), [](float v) { return std::isfinite(v); });
}

}  // namespace

Net::Net(const std::vector<ResolvedLayer>& layers, uint64_t seed, Context& context)
    : context_(context) {
  plan_parameters(layers);
  make_implementations(layers);
  plan_memory();
  plan_calls();
  initialise(seed);
}

void Net::plan_parameters(const std::vector<ResolvedLayer>& layers) {
  ArenaPlan plan;
  for (const ResolvedLayer& resolved : layers) {
    for (const ParameterSpec& spec : resolved.layer->parameters()) {
      parameters_.push_back(
          {resolved.parameter_prefix + "." + spec.name, spec, plan.reserve(spec.desc.bytes())});
    }
  }
  parameter_bytes_ = plan.bytes();
  parameter_memory_ = Buffer(context_.device(), parameter_bytes_);
  gradient_memory_ = Buffer(context_.device(), parameter_bytes_);
  fill_bytes(parameter_memory_.data(), context_.device(), 0, parameter_bytes_);
  fill_bytes(gradient_memory_.data(), context_.device(), 0, parameter_bytes_);
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
      if (runs(resolved, choice.pass)) {
        const Running running(choice.id, resolved.layer->type(), "prepare", resolved.name);
        implementation->prepare(choice.pass, context_);
      }
      node.steps.push_back(
          {choice.pass, choice.id, choice.shared, runs(resolved, choice.pass), implementation,
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
  size_t workspace_bytes = 0;
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
    if (layer.takes_labels()) place(t.dy[0], layer.outputs()[0]);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (node.inputs[k].gradient && !layer.is_view(Pass::kBackward)) {
        place(t.dx[k], layer.inputs()[k]);
      }
    }
    size_t state_bytes = 0;
    for (const Node::Step& step : node.steps) {
      state_bytes = std::max(state_bytes, step.implementation->state_bytes());
      if (step.runs) {
        workspace_bytes =
            std::max(workspace_bytes, step.implementation->workspace_bytes(step.pass));
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
  workspace_ = Buffer(context_.device(), workspace_bytes + kSlack);
  context_.set_workspace(workspace_.data(), workspace_bytes);

  size_t parameter = 0;
  for (Node& node : nodes_) {
    for (const ParameterSpec& spec : node.layer->parameters()) {
      const size_t offset = parameters_[parameter++].offset;
      node.tensors.w.push_back({spec.desc, parameter_memory_.at(offset)});
      node.tensors.dw.push_back({spec.desc, gradient_memory_.at(offset)});
    }
  }
  share_views();
  // d loss / d loss = 1 starts the backward pass.
  const Tensor& dloss = nodes_.back().tensors.dy[0];
  const float one = 1.0f;
  const double one_double = 1.0;
  const void* from = dloss.desc.dtype == DType::kFloat64 ? static_cast<const void*>(&one_double)
                                                         : static_cast<const void*>(&one);
  copy_bytes(dloss.memory, context_.device(), from, Device::kCpu, dloss.bytes());
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
      if (!source.gradient) continue;
      if (node->layer->is_view(Pass::kBackward)) {
        t.dx[k] = {node->layer->inputs()[k], t.dy[0].memory};
      }
      Node& from = nodes_[static_cast<size_t>(source.layer)];
      const auto output = static_cast<size_t>(source.output);
      from.tensors.dy[output] = {from.layer->outputs()[output], t.dx[k].memory};
    }
  }
}

void Net::initialise(uint64_t seed) {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    write(parameters_[i], flat_parameters(),
          initial_values(parameters_[i].spec, seed, static_cast<uint32_t>(i)));
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
  for (size_t i = 0; i < forward_calls_; ++i) run(*calls_[i].node, *calls_[i].step);
}

void Net::backward() {
  for (size_t i = forward_calls_; i < calls_.size(); ++i) run(*calls_[i].node, *calls_[i].step);
}

int64_t Net::parameter_count() const {
  int64_t count = 0;
  for (const Parameter& p : parameters_) count += p.spec.desc.elements();
  return count;
}

Tensor Net::flat(const Buffer& buffer) const {
  return {{{static_cast<int64_t>(parameter_bytes_ / sizeof(float))}}, buffer.data()};
}

size_t Net::memory_bytes() const {
  return parameter_memory_.bytes() + gradient_memory_.bytes() + activation_memory_.bytes() +
         workspace_.bytes();
}

std::vector<float> Net::read(const Parameter& parameter, const Tensor& memory) const {
  std::vector<float> values(parameter.spec.desc.elements());
  with_physical_values(parameter.spec.desc, [&](auto physical) {
    copy_bytes(physical.data(), Device::kCpu, memory.data<char>() + parameter.offset,
               context_.device(), parameter.spec.desc.bytes());
    for_each_element(parameter.spec.desc,
                     [&](int64_t p, int64_t l) { values[l] = static_cast<float>(physical[p]); });
  });
  return values;
}

void Net::write(const Parameter& parameter, const Tensor& memory,
                const std::vector<float>& values) {
  with_physical_values(parameter.spec.desc, [&](auto physical) {
    for_each_element(parameter.spec.desc, [&](int64_t p, int64_t l) { physical[p] = values[l]; });
    copy_bytes(memory.data<char>() + parameter.offset, context_.device(), physical.data(),
               Device::kCpu, parameter.spec.desc.bytes());
  });
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
