#include "measure/check/layer_rig.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "layers/gpu_reference.h"
#include "measure/check/compare_memory.h"

namespace duet {
namespace {

// A kernel that takes more workspace than it asked for takes much more, not a word.
constexpr size_t kWorkspaceGuard = 64 << 10;

std::string indexed(const std::string& name, size_t i) {
  return name + "[" + std::to_string(i) + "]";
}

std::string guard_line(const std::string& name, const std::string& damage) {
  return "  guard of " + name + ": " + damage + "\n";
}

void restore(std::vector<GuardedTensor>& tensors, const std::vector<Buffer>& from) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const GuardedBuffer& to = tensors[i].buffer();
    if (from.at(i).bytes() != to.bytes()) throw std::logic_error("data of another layer");
    copy_bytes(to.data(), to.device(), from.at(i).data(), to.device(), to.bytes());
  }
}

void poison(std::vector<GuardedTensor>& tensors) {
  for (GuardedTensor& tensor : tensors) tensor.buffer().poison();
}

Buffer copy_of(const GuardedBuffer& from) {
  Buffer copy(from.device(), from.bytes());
  copy_bytes(copy.data(), from.device(), from.data(), from.device(), from.bytes());
  return copy;
}

BoundOp bound(const Layer& layer, std::string_view id, Context& context) {
  if (id == kGpuReference) return {layer, id, context, make_gpu_reference(layer)};
  return {layer, id, context};
}

}  // namespace

LayerRig::LayerRig(const Layer& layer, std::string_view id, const std::vector<Pass>& passes,
                   Context& context, const LayerSituation& situation, const Guards& guards)
    : layer_(layer),
      situation_(situation),
      context_(context),
      step_(context.device(), sizeof(uint64_t), guards),
      op_(bound(layer, id, context)) {
  const Device device = context_.device();
  constexpr uint64_t kNoStep = 0;
  step_.upload(&kNoStep);
  for (Pass pass : passes) {
    op_.prepare(pass);
    workspaces_[pass] =
        GuardedBuffer(device, op_.workspace_bytes(pass),
                      Guards{std::max(kWorkspaceGuard, guards.bytes), guards.fence});
  }
  const auto guarded = [&](const TensorDesc& desc) { return GuardedTensor(device, desc, guards); };
  for (size_t i = 0; i < layer.inputs().size(); ++i) {
    const TensorDesc& desc = layer.inputs()[i];
    x_.push_back(guarded(desc));
    if (layer.is_sum() && !dx_.empty()) continue;
    dx_.push_back(layer.has_gradient(i) ? guarded(desc) : GuardedTensor());
  }
  for (const TensorDesc& desc : layer.outputs()) {
    if (!layer.is_sum() || y_.empty()) y_.push_back(guarded(desc));
    dy_.push_back(is_float(desc.dtype) ? guarded(desc) : GuardedTensor());
  }
  for (const ParameterSpec& p : layer.parameters()) {
    w_.push_back(guarded(p.desc));
    dw_.push_back(p.trained() ? guarded(p.desc) : GuardedTensor());
  }
  state_ = GuardedBuffer(device, op_.state_bytes(), guards);
}

void LayerRig::load(const LayerData& data) {
  load(std::make_shared<const StoredData>(layer_, data, context_.device()));
}

void LayerRig::load(std::shared_ptr<const StoredData> data) {
  loaded_ = std::move(data);
  reset();
}

void LayerRig::renew(std::shared_ptr<const StoredData> data) {
  loaded_ = std::move(data);
  restore();
}

void LayerRig::restore() {
  step_.upload(&loaded_->step);
  duet::restore(x_, loaded_->x);
  duet::restore(w_, loaded_->w);
  duet::restore(dy_, loaded_->dy);
}

void LayerRig::reset() {
  restore();
  for (auto* tensors : {&y_, &dx_, &dw_}) poison(*tensors);
  state_.poison();
  poison_workspaces();
}

void LayerRig::surround(GuardedBuffer::Band band) {
  for (auto* tensors : {&x_, &y_, &dx_, &dy_, &w_, &dw_}) {
    for (GuardedTensor& tensor : *tensors) tensor.buffer().surround(band);
  }
  for (auto& [pass, workspace] : workspaces_) workspace.surround(band);
  state_.surround(band);
  step_.surround(band);
}

void LayerRig::poison_workspaces() {
  for (auto& [pass, workspace] : workspaces_) workspace.poison();
}

void LayerRig::queue_poison(Pass pass) {
  for (const Output& output : outputs_of(pass)) {
    const GuardedBuffer& buffer = output.tensor->buffer();
    context_.queue_fill(buffer.data(), kPoison, buffer.bytes());
  }
  if (pass != Pass::kForward) return;
  for (size_t i = 0; i < w_.size(); ++i) {
    if (!situation_.updates(layer_.parameters()[i])) continue;
    const GuardedBuffer& buffer = w_[i].buffer();
    context_.queue_copy(buffer.data(), loaded_->w[i].data(), buffer.bytes());
  }
}

void LayerRig::set_y(const std::vector<Buffer>& y) { duet::restore(y_, y); }

LayerTensors LayerRig::tensors(const std::vector<size_t>& without_dx) const {
  LayerTensors t;
  for (size_t i = 0; i < x_.size(); ++i) {
    t.x.push_back(x_[i].view());
    const bool wanted = std::find(without_dx.begin(), without_dx.end(), i) == without_dx.end();
    t.dx.push_back(wanted ? dx(i).view() : Tensor{});
  }
  for (size_t i = 0; i < dy_.size(); ++i) t.y.push_back(y(i).view());
  for (const GuardedTensor& dy : dy_) t.dy.push_back(dy.view());
  for (const GuardedTensor& w : w_) t.w.push_back(w.view());
  for (const GuardedTensor& dw : dw_) t.dw.push_back(dw.view());
  t.state = {{{static_cast<int64_t>(state_.bytes())}, DType::kUInt8}, state_.data()};
  return t;
}

void LayerRig::queue(Pass pass, const std::vector<size_t>& without_dx) {
  const GuardedBuffer& workspace = workspaces_.at(pass);
  const LayerTensors given = tensors(without_dx);
  const Run run{context_, workspace.address(), workspace.bytes(),
                static_cast<const uint64_t*>(step_.data()), situation_.training};
  op_.run(pass, run, given);
}

void LayerRig::run(Pass pass, const std::vector<size_t>& without_dx) {
  workspaces_.at(pass).poison();
  watch(pass, without_dx);
  const bool backward = pass != Pass::kForward;
  const SavedTensors reads = backward ? op_.reads(pass) : SavedTensors{true, true};
  if (!reads.x) poison(x_);
  if (!reads.y) poison(y_);
  queue(pass, without_dx);
  context_.synchronize();
  if (!reads.x) show(x_, loaded_->x);
  if (!reads.y) show(y_, y_before_);
}

// What was written to meanwhile stays as it is, for input_damage() to find.
void LayerRig::show(std::vector<GuardedTensor>& hidden, const std::vector<Buffer>& values) {
  for (size_t i = 0; i < hidden.size(); ++i) {
    const GuardedBuffer& to = hidden[i].buffer();
    if (!all_bytes(to.data(), std::byte{kPoison}, to.bytes(), context_)) continue;
    copy_bytes(to.data(), to.device(), values.at(i).data(), to.device(), to.bytes());
  }
}

void LayerRig::watch(Pass pass, const std::vector<size_t>& without_dx) {
  watched_ = pass;
  without_dx_ = without_dx;
  y_before_.clear();
  if (pass != Pass::kForward) {
    for (const GuardedTensor& y : y_) y_before_.push_back(copy_of(y.buffer()));
  }
  for (auto* tensors : {&dx_, &dw_}) {
    for (GuardedTensor& tensor : *tensors) {
      if (!may_write(tensor)) tensor.buffer().poison();
    }
  }
}

std::vector<std::pair<std::string, const GuardedBuffer*>> LayerRig::all_buffers() const {
  std::vector<std::pair<std::string, const GuardedBuffer*>> all = {{"state", &state_},
                                                                   {"step", &step_}};
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

std::string LayerRig::workspace_damage() const {
  std::string text;
  for (const auto& [pass, workspace] : workspaces_) {
    if (const auto damage = workspace.damage())
      text += guard_line("workspace of " + std::string(to_string(pass)), *damage);
  }
  return text;
}

std::string LayerRig::input_damage() const {
  std::string text;
  const auto check = [&](const std::string& name, const GuardedTensor& tensor,
                         const Buffer& before) {
    const GuardedBuffer& now = tensor.buffer();
    if (!same_bytes(now.data(), before.data(), now.bytes(), context_)) {
      text += "  input " + name + " was changed\n";
    }
  };
  for (size_t i = 0; i < x_.size(); ++i) check(indexed("x", i), x_[i], loaded_->x[i]);
  for (size_t i = 0; i < w_.size(); ++i) {
    const bool updated = situation_.updates(layer_.parameters()[i]);
    if (!updated) check(indexed("w", i), w_[i], loaded_->w[i]);
  }
  for (size_t i = 0; i < dy_.size(); ++i) check(indexed("dy", i), dy_[i], loaded_->dy[i]);
  for (size_t i = 0; i < y_before_.size(); ++i) check(indexed("y", i), y_[i], y_before_[i]);
  const auto check_unwritten = [&](const std::string& name, const GuardedTensor& tensor) {
    const GuardedBuffer& buffer = tensor.buffer();
    if (may_write(tensor)) return;
    if (!all_bytes(buffer.data(), std::byte{kPoison}, buffer.bytes(), context_)) {
      text += "  " + name + ", which is another pass's or not wanted, was written\n";
    }
  };
  for (size_t i = 0; i < dx_.size(); ++i) check_unwritten(indexed("dx", i), dx_[i]);
  for (size_t i = 0; i < dw_.size(); ++i) check_unwritten(indexed("dw", i), dw_[i]);
  uint64_t step = 0;
  std::memcpy(&step, step_.download().data(), sizeof step);
  if (step != loaded_->step) text += "  the step was changed\n";
  return text;
}

std::string LayerRig::buffer_damage() const {
  std::string text;
  for (const auto& [name, buffer] : all_buffers()) {
    if (const auto damage = buffer->damage()) text += guard_line(name, *damage);
  }
  return text;
}

std::vector<LayerRig::Output> LayerRig::outputs_of(Pass pass) const {
  std::vector<Output> all;
  const auto& parameters = layer_.parameters();
  if (pass == Pass::kForward) {
    for (size_t i = 0; i < dy_.size(); ++i) all.push_back({indexed("y", i), false, &y(i)});
    for (size_t i = 0; i < w_.size(); ++i) {
      if (situation_.updates(parameters[i])) all.push_back({parameters[i].name, true, &w_[i]});
    }
    return all;
  }
  if (pass != Pass::kBackwardFilter) {
    for (size_t i : differentiable_inputs()) all.push_back({indexed("dx", i), false, &dx(i)});
  }
  if (pass != Pass::kBackwardData) {
    for (size_t i = 0; i < dw_.size(); ++i) {
      if (!dw_[i].view()) continue;
      all.push_back({indexed("dw", i) + " " + parameters[i].name, true, &dw_[i]});
    }
  }
  return all;
}

bool LayerRig::may_write(const GuardedTensor& tensor) const {
  if (!without_dx_.empty() && &tensor >= dx_.data() && &tensor < dx_.data() + dx_.size()) {
    size_t wanted = 0;  // the inputs whose gradient that is, and that get one
    for (size_t i = 0; i < x_.size(); ++i) {
      wanted += &dx(i) == &tensor &&
                std::find(without_dx_.begin(), without_dx_.end(), i) == without_dx_.end();
    }
    if (wanted == 0) return false;
  }
  const auto all = outputs_of(watched_);
  return std::any_of(all.begin(), all.end(),
                     [&](const Output& output) { return output.tensor == &tensor; });
}

std::vector<NamedValues> LayerRig::outputs(Pass pass) const {
  std::vector<NamedValues> all;
  for (const Output& output : outputs_of(pass)) {
    all.push_back({output.name, output.tensor->desc(), output.parameter, output.tensor->get()});
  }
  return all;
}

std::vector<Buffer> LayerRig::make_snapshot(Pass pass) const {
  std::vector<Buffer> snapshot;
  for (const Output& output : outputs_of(pass)) {
    const GuardedBuffer& buffer = output.tensor->buffer();
    snapshot.emplace_back(buffer.device(), buffer.bytes());
  }
  return snapshot;
}

void LayerRig::queue_snapshot(Pass pass, const std::vector<Buffer>& to) const {
  const auto outputs = outputs_of(pass);
  for (size_t i = 0; i < outputs.size(); ++i) {
    context_.queue_copy(to.at(i).data(), outputs[i].tensor->buffer().data(), to[i].bytes());
  }
}

bool LayerRig::holds(Pass pass, const std::vector<Buffer>& snapshot) const {
  const auto outputs = outputs_of(pass);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Buffer& before = snapshot.at(i);
    const void* now = outputs[i].tensor->buffer().data();
    if (!same_bytes(now, before.data(), before.bytes(), context_)) return false;
  }
  return true;
}

std::vector<Tensor> LayerRig::read_by(Pass pass) const {
  std::vector<Tensor> all;
  const auto add = [&](const std::vector<GuardedTensor>& tensors) {
    for (const GuardedTensor& tensor : tensors) {
      if (tensor.view()) all.push_back(tensor.view());
    }
  };
  add(x_);
  add(w_);
  add(dy_);
  if (pass != Pass::kForward) add(y_);
  return all;
}

std::vector<Tensor> LayerRig::written_by(Pass pass) const {
  std::vector<Tensor> all;
  for (const Output& output : outputs_of(pass)) all.push_back(output.tensor->view());
  return all;
}

std::vector<size_t> LayerRig::differentiable_inputs() const {
  std::vector<size_t> indices;
  for (size_t i = 0; i < x_.size(); ++i) {
    if (dx(i).view()) indices.push_back(i);
  }
  return indices;
}

}  // namespace duet
