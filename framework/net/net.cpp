#include "net/net.h"

#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "core/error.h"
#include "device/range.h"
#include "layers/objective.h"
#include "measure/check/guarded_buffer.h"
#include "measure/check/layer_data.h"

namespace duet {
namespace {

// A kernel that writes a little beyond its workspace is compare's to find: it must not stop the
// process before that.
constexpr size_t kSlack = 4096;

bool overlap(const Tensor& a, const Tensor& b) {
  if (!a || !b) return false;
  const auto begin = [](const Tensor& tensor) { return static_cast<const char*>(tensor.memory); };
  return begin(a) < begin(b) + b.bytes() && begin(b) < begin(a) + a.bytes();
}

bool is_finite(const Tensor& tensor, Device device) {
  if (!tensor || !is_float(tensor.desc.dtype)) return true;
  const std::vector<double> values = values_of(tensor, device);
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

const Tensor& tensor_named(const FieldTensors& tensors, std::string_view name) {
  static const Tensor none;
  const auto found = tensors.find(name);
  return found == tensors.end() ? none : found->second;
}

}  // namespace

Net::Net(const std::vector<ResolvedLayer>& layers, Weights& weights, Context& context, Mode mode)
    : context_(context), weights_(weights), mode_(mode) {
  make_ops(layers);
  plan_ = duet::plan(layers, mode, [this](size_t layer, Pass pass) {
    return nodes_[layer].step(pass)->op->reads(pass);
  });
  list_calls();
  connect_ports(layers);
  take_memory();
  set_losses(layers);
  take_workspace();
  take_prepared_memory();
  use_weights(layers);
  set_constants();
}

void Net::make_ops(const std::vector<ResolvedLayer>& layers) {
  for (const ResolvedLayer& resolved : layers) {
    Node node{.name = resolved.name,
              .layer = resolved.layer,
              .inputs = resolved.inputs,
              .frozen = resolved.frozen};
    for (const PassChoice& choice : resolved.passes) {
      BoundOp* op = nullptr;
      for (const Node::Step& step : node.steps) {
        if (step.id == choice.id) op = step.op;
      }
      if (!op) {
        node.ops.push_back(
            std::make_unique<BoundOp>(*resolved.layer, choice.id, context_, resolved.name));
        op = node.ops.back().get();
      }
      const bool runs_here = runs(resolved, choice.pass) &&
                             (choice.pass == Pass::kForward || mode_ != Mode::kInference);
      if (runs_here) op->prepare(choice.pass);
      node.steps.push_back(
          {choice.pass, choice.id, choice.shared, runs_here, op,
           resolved.name + " " + std::string(to_string(choice.pass)) + " " + choice.id});
    }
    nodes_.push_back(std::move(node));
  }
}

void Net::take_workspace() {
  for (const Call& call : calls_) {
    workspace_bytes_ = std::max(workspace_bytes_, call.step->op->workspace_bytes(call.step->pass));
  }
  workspace_ = Buffer(context_.device(), workspace_bytes_ + kSlack);
}

void Net::run_aside(SideStream* aside) {
  aside_ = aside;
  // After a pass that threw, too, nothing is beside anything.
  asides_.clear();
  prepares_aside_ = false;
  if (!aside || workspace_aside_.data()) return;
  for (const Call& call : calls_) {
    if (!may_run_aside(call)) continue;
    workspace_aside_bytes_ =
        std::max(workspace_aside_bytes_, call.step->op->workspace_bytes(call.step->pass));
  }
  workspace_aside_ = Buffer(context_.device(), workspace_aside_bytes_ + kSlack);
}

void Net::join_aside() {
  aside_->join();
  asides_.clear();
  prepares_aside_ = false;
}

// The others end the backward pass, and all waits for them.
bool Net::may_run_aside(const Call& call) const {
  return call.step->pass == Pass::kBackwardFilter && call.node->tensors.dx[0];
}

// Values that no call of the list needs at the same time share memory. So a pass waits for those beside
// it that read what it overwrites.
void Net::wait_for_readers(const Call& call) {
  if (call.step->pass == Pass::kForward) return;  // beside it only weights are prepared
  std::vector<Tensor> written = call.node->tensors.dx;
  written.push_back(call.node->tensors.state);
  for (Port port : call.step->left) written.push_back(call.step->ports.*port);
  const auto are_written = [&](const std::vector<Tensor>& read) {
    return std::any_of(written.begin(), written.end(), [&](const Tensor& one) {
      return std::any_of(read.begin(), read.end(),
                         [&](const Tensor& other) { return overlap(one, other); });
    });
  };
  for (size_t i = asides_.size(); i-- > 0;) {
    const Node& reader = *asides_[i].node;
    const LayerTensors& read = reader.tensors;
    // A layer's own state is only read once its backward_filter has gone aside.
    const bool state = &reader != call.node && are_written({read.state});
    const Ports& ports = asides_[i].step->ports;
    const bool handed = are_written({ports.staged_x, ports.staged_dy, ports.staged_w});
    const SavedTensors reads = asides_[i].step->op->reads(asides_[i].step->pass);
    const bool x = reads.x && are_written(read.x), y = reads.y && are_written(read.y);
    if (!state && !handed && !x && !y && !are_written(read.dy)) continue;
    aside_->hold_main(asides_[i].mark);  // and those before it
    asides_.erase(asides_.begin(), asides_.begin() + static_cast<ptrdiff_t>(i) + 1);
    return;
  }
}

void Net::set_losses(const std::vector<ResolvedLayer>& layers) {
  for (int number : plan_.losses) {
    const auto i = static_cast<size_t>(number);
    losses_.push_back({&nodes_[i], static_cast<float>(layers[i].loss_weight)});
  }
  for (const Node& node : nodes_) {
    if (node.layer->is_metric()) metrics_.push_back(&node);
  }
  if (losses_.empty()) {
    const LayerTensors& last = nodes_[static_cast<size_t>(plan_.result_layer)].tensors;
    output_ = last.y[0];
    output_gradient_ = last.dy[0];
    return;
  }
  output_ = nodes_[static_cast<size_t>(plan_.result_reader)].tensors.x[0];
  if (losses_.size() == 1 && losses_[0].weight == 1.0f) {
    objective_ = losses_[0].value();
    return;
  }
  const TensorDesc& desc = losses_[0].value().desc;
  objective_memory_ = Buffer(context_.device(), desc.bytes());
  objective_ = {desc, objective_memory_.data()};
}

// A double reference has none.
void Net::queue_objective() {
  if (!objective_memory_.data() || objective_.desc.dtype != DType::kFloat32) return;
  WeightedLosses terms;
  for (const Loss& loss : losses_) terms.add(loss.value().data<float>(), loss.weight);
  add_losses(context_, terms, objective_.data<float>());
}

const Tensor& Net::field(std::string_view name) const { return tensor_named(fields_, name); }

const Tensor& Net::field_gradient(std::string_view name) const {
  return tensor_named(field_gradients_, name);
}

// The gradients of the losses, by their weights in the objective, start the backward pass; infer()
// has the step number 0.
void Net::set_constants() {
  step_ = Buffer(context_.device(), sizeof(uint64_t));
  fill_bytes(step_.data(), context_.device(), 0, step_.bytes());
  if (mode_ == Mode::kInference) return;
  for (const Loss& loss : losses_) {
    const Tensor& dloss = loss.node->tensors.dy[0];
    const double weight = loss.weight;
    const void* from = dloss.desc.dtype == DType::kFloat64 ? static_cast<const void*>(&weight)
                                                           : static_cast<const void*>(&loss.weight);
    copy_bytes(dloss.memory, context_.device(), from, Device::kCpu, dloss.bytes());
  }
}

void Net::use_weights(const std::vector<ResolvedLayer>& layers) {
  if (mode_ != Mode::kInference) {
    gradient_memory_ = Buffer(context_.device(), weights_.trained().bytes());
    fill_bytes(gradient_memory_.data(), context_.device(), 0, gradient_memory_.bytes());
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    for (size_t j = 0; j < node.layer->parameters().size(); ++j) {
      const Parameter* const parameter = weights_.find(layers[i], j);
      if (!parameter) {
        throw std::logic_error("the weights are of another network than layer " + node.name);
      }
      const bool has_gradient = gradient_memory_.bytes() && parameter->spec.trained();
      node.tensors.w.push_back(weights_.view(*parameter));
      node.tensors.dw.push_back(has_gradient ? Weights::view(*parameter, gradients()) : Tensor());
    }
  }
  take_unwanted_memory();
}

void Net::list_calls() {
  for (const PlannedCall& call : plan_.calls) {
    Node& node = nodes_[static_cast<size_t>(call.layer)];
    calls_.push_back({&node, node.step(call.pass)});
  }
}

void Net::run_pass(const Call& call, Run run) {
  const Node& node = *call.node;
  BoundOp& op = *call.step->op;
  if (!aside_) return op.run(call.step->pass, run, node.tensors);
  wait_for_readers(call);
  RunAside aside_run{*aside_, workspace_aside_.data(), workspace_aside_bytes_};
  if (may_run_aside(call)) run.aside = &aside_run;
  // A pass that keeps no state and leaves nothing has nothing for backward_data.
  const bool whole = op.state_bytes() == 0 && call.step->left.empty();
  op.run(call.step->pass, whole ? aside(run) : run, node.tensors);
  if (aside_run.is_taken) asides_.push_back({&node, call.step, aside_->mark()});
}

void Net::run(const Call& call, const uint64_t* number, bool training) {
  Node& node = *call.node;
  const Node::Step& step = *call.step;
  const Range range(step.label);
  const bool trains = training && mode_ != Mode::kGradients;
  Run run{context_, workspace_.data(), workspace_bytes_, number, trains && !node.frozen};
  if (trains) run.ports = step.ports;
  run.inference = !trains && step.pass == Pass::kForward && mode_ != Mode::kGradients;
  if (run.inference) prepare_weights();
  if (run.inference || takes_prepared(call)) run.ports.prepared_w = node.prepared_w;
  run_pass(call, run);
  const bool ends_forward =
      step.pass == Pass::kForward && !losses_.empty() && losses_.back().node == &node;
  if (ends_forward) queue_objective();
}

void Net::forward(const uint64_t* step) {
  for (size_t i = 0; i < plan_.forward_calls; ++i) run(calls_[i], step);
}

void Net::backward(const uint64_t* step) {
  for (size_t i = plan_.forward_calls; i < calls_.size(); ++i) run(calls_[i], step);
}

void Net::infer() {
  const auto* step = static_cast<const uint64_t*>(step_.data());
  for (size_t i = 0; i < plan_.forward_calls; ++i) run(calls_[i], step, false);
}

size_t Net::memory_bytes() const {
  return weights_.memory_bytes() + gradient_memory_.bytes() + activation_memory_.bytes() +
         unwanted_memory_.bytes() + workspace_.bytes() + workspace_aside_.bytes() +
         prepared_memory_.bytes() + objective_memory_.bytes();
}

std::string Net::find_non_finite(const uint64_t* step) {
  const auto all_finite = [&](const std::vector<Tensor>& tensors) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [&](const Tensor& tensor) { return is_finite(tensor, context_.device()); });
  };
  for (const Node& node : nodes_) {
    const LayerTensors& t = node.tensors;
    for (size_t j = 0; j < t.w.size(); ++j) {
      // A step that goes wrong has already been averaged into the buffers, which it does not read.
      if (!node.layer->parameters()[j].trained() || all_finite({t.w[j]})) continue;
      return "parameter " + node.layer->parameters()[j].name + " of layer " + node.name;
    }
  }
  for (const auto& [name, tensor] : fields_) {
    if (!all_finite({tensor})) return "the input " + name;
  }
  for (const Call& call : calls_) {
    run(call, step);
    context_.synchronize();
    const LayerTensors& t = call.node->tensors;
    const std::string layer = " of layer " + call.node->name;
    if (call.step->pass == Pass::kForward) {
      if (!all_finite(t.y)) return "the output" + layer;
      continue;
    }
    if (call.step->pass != Pass::kBackwardData && !all_finite(t.dw)) {
      return "a parameter gradient" + layer;
    }
    if (call.step->pass != Pass::kBackwardFilter && !all_finite(t.dx)) {
      return "the input gradient" + layer;
    }
  }
  return "";
}

}  // namespace duet
