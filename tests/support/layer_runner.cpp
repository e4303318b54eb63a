#include "support/layer_runner.h"

#include <algorithm>
#include <memory>

namespace duet {
namespace {

std::string indexed(const std::string& name, size_t i) {
  return name + "[" + std::to_string(i) + "]";
}

}  // namespace

Context& test_context(Device device) {
  static std::unique_ptr<Context> contexts[2];
  auto& context = contexts[device == Device::kGpu];
  if (!context) context = std::make_unique<Context>(device);
  return *context;
}

LayerRunner::LayerRunner(const Layer& layer, const LayerCase& c, std::string_view id,
                         const CaseData& data, const std::vector<Pass>& passes)
    : layer_(layer),
      case_(c),
      data_(data),
      context_(test_context(device_of(family_of(id)))),
      impl_(layer.make(id, context_)) {
  const Device device = context_.device();
  step_ = GuardedBuffer(device, sizeof(uint64_t));
  step_.upload(&c.step);
  context_.set_step(static_cast<const uint64_t*>(step_.data()));
  context_.set_training(c.training);
  for (Pass pass : passes) impl_->prepare(pass, context_);

  for (const TensorDesc& desc : layer.inputs()) {
    x_.emplace_back(device, desc);
    dx_.push_back(is_float(desc.dtype) ? GuardedTensor(device, desc) : GuardedTensor());
  }
  for (const TensorDesc& desc : layer.outputs()) {
    y_.emplace_back(device, desc);
    dy_.push_back(is_float(desc.dtype) ? GuardedTensor(device, desc) : GuardedTensor());
  }
  for (const ParameterSpec& p : layer.parameters()) {
    w_.emplace_back(device, p.desc);
    dw_.push_back(is_updated(c, p) ? GuardedTensor() : GuardedTensor(device, p.desc));
  }
  state_ = GuardedBuffer(device, impl_->state_bytes());
  reset();
}

void LayerRunner::reset() {
  for (size_t i = 0; i < x_.size(); ++i) x_[i].set(data_.x[i]);
  for (size_t i = 0; i < w_.size(); ++i) w_[i].set(data_.w[i]);
  for (size_t i = 0; i < dy_.size(); ++i) {
    if (dy_[i].view()) dy_[i].set(data_.dy[i]);
  }
  for (auto* tensors : {&y_, &dx_, &dw_}) {
    for (GuardedTensor& tensor : *tensors) tensor.buffer().poison();
  }
  state_.poison();
}

void LayerRunner::set_y(const std::vector<NamedValues>& y) {
  for (size_t i = 0; i < y_.size(); ++i) y_[i].set(y[i].values);
}

void LayerRunner::run(Pass pass, const std::vector<size_t>& without_dx) {
  // Exactly what was asked for, anew for each pass: its content must not be counted on.
  workspace_ = GuardedBuffer(context_.device(), impl_->workspace_bytes(pass));
  context_.set_workspace(workspace_.data(), workspace_.bytes());
  context_.set_step(static_cast<const uint64_t*>(step_.data()));
  context_.set_training(case_.training);

  LayerTensors t;
  for (size_t i = 0; i < x_.size(); ++i) {
    t.x.push_back(x_[i].view());
    const bool wanted = std::find(without_dx.begin(), without_dx.end(), i) == without_dx.end();
    t.dx.push_back(wanted ? dx_[i].view() : Tensor{});
  }
  for (const GuardedTensor& y : y_) t.y.push_back(y.view());
  for (const GuardedTensor& dy : dy_) t.dy.push_back(dy.view());
  for (const GuardedTensor& w : w_) t.w.push_back(w.view());
  for (const GuardedTensor& dw : dw_) t.dw.push_back(dw.view());
  t.state = {{{static_cast<int64_t>(state_.bytes())}, DType::kUInt8}, state_.data()};

  inputs_.clear();
  const auto watch = [&](const std::string& name, GuardedTensor& tensor) {
    inputs_.push_back({name, &tensor, tensor.buffer().download()});
  };
  for (size_t i = 0; i < x_.size(); ++i) watch(indexed("x", i), x_[i]);
  for (size_t i = 0; i < w_.size(); ++i) {
    if (pass != Pass::kForward || !is_updated(case_, layer_.parameters()[i])) {
      watch(indexed("w", i), w_[i]);
    }
  }
  for (size_t i = 0; i < dy_.size(); ++i) {
    watch(indexed("dy", i), dy_[i]);
    if (pass != Pass::kForward) watch(indexed("y", i), y_[i]);
  }
  impl_->run(pass, context_, t);
  context_.synchronize();
}

std::vector<std::pair<std::string, const GuardedBuffer*>> LayerRunner::all_buffers() const {
  std::vector<std::pair<std::string, const GuardedBuffer*>> all = {
      {"state", &state_}, {"workspace", &workspace_}, {"step", &step_}};
  const auto add = [&](const std::string& name, const std::vector<GuardedTensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      all.emplace_back(indexed(name, i), &tensors[i].buffer());
    }
  };
  add("x", x_);
  add("y", y_);
  add("dx", dx_);
  add("dy", dy_);
  add("w", w_);
  add("dw", dw_);
  return all;
}

std::string LayerRunner::damage() const {
  std::string text;
  for (const auto& [name, buffer] : all_buffers()) {
    if (const auto damage = buffer->damage()) text += "  guard of " + name + ": " + *damage + "\n";
  }
  for (const Input& input : inputs_) {
    if (input.tensor->buffer().download() != input.before) {
      text += "  input " + input.name + " was changed\n";
    }
  }
  return text;
}

std::vector<NamedValues> LayerRunner::outputs(Pass pass) const {
  std::vector<NamedValues> all;
  const auto& parameters = layer_.parameters();
  if (pass == Pass::kForward) {
    for (size_t i = 0; i < y_.size(); ++i) {
      all.push_back({indexed("y", i), y_[i].desc(), false, y_[i].get()});
    }
    for (size_t i = 0; i < w_.size(); ++i) {
      if (!is_updated(case_, parameters[i])) continue;
      all.push_back({parameters[i].name, w_[i].desc(), true, w_[i].get()});
    }
    return all;
  }
  if (pass != Pass::kBackwardFilter) {
    for (size_t i : differentiable_inputs()) {
      all.push_back({indexed("dx", i), dx_[i].desc(), false, dx_[i].get()});
    }
  }
  if (pass != Pass::kBackwardData) {
    for (size_t i = 0; i < dw_.size(); ++i) {
      if (!dw_[i].view()) continue;
      all.push_back(
          {indexed("dw", i) + " " + parameters[i].name, dw_[i].desc(), true, dw_[i].get()});
    }
  }
  return all;
}

std::vector<size_t> LayerRunner::differentiable_inputs() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < dx_.size(); ++i) {
    if (dx_[i].view()) indices.push_back(i);
  }
  return indices;
}

}  // namespace duet
