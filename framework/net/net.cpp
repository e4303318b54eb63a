#include "net/net.h"

#include <algorithm>
#include <cmath>

#include "core/arena.h"
#include "core/error.h"
#include "core/running.h"
#include "device/gpu_state.h"
#include "device/range.h"
#include "layers/objective.h"
#include "measure/guarded_buffer.h"
#include "measure/layer_data.h"

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
    : context_(context), weights_(weights), mode_(mode), plan_(duet::plan(layers, mode)) {
  make_implementations(layers);
  list_calls();
  hand_moments_on(layers);
  share_staged(layers);
  take_memory();
  set_losses(layers);
  take_workspace();
  take_prepared_memory();
  use_weights(layers);
  set_constants();
}

void Net::make_implementations(const std::vector<ResolvedLayer>& layers) {
  for (const ResolvedLayer& resolved : layers) {
    Node node{.name = resolved.name,
              .layer = resolved.layer,
              .inputs = resolved.inputs,
              .frozen = resolved.frozen};
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
      const bool runs_here = runs(resolved, choice.pass) &&
                             (choice.pass == Pass::kForward || mode_ != Mode::kInference);
      if (runs_here) {
        const Running running(choice.id, resolved.layer->type(), "prepare", resolved.name);
        implementation->prepare(choice.pass, context_);
      }
      node.steps.push_back(
          {choice.pass, choice.id, choice.shared, runs_here, implementation,
           resolved.name + " " + std::string(to_string(choice.pass)) + " " + choice.id});
    }
    nodes_.push_back(std::move(node));
  }
}

void Net::take_workspace() {
  for (const Call& call : calls_) {
    workspace_bytes_ =
        std::max(workspace_bytes_, call.step->implementation->workspace_bytes(call.step->pass));
  }
  workspace_ = Buffer(context_.device(), workspace_bytes_ + kSlack);
}

// Where backward passes of an evaluation follow, forward has to leave what they need.
void Net::take_prepared_memory() {
  if (mode_ == Mode::kGradients) return;
  ArenaPlan plan;
  std::vector<std::pair<Node*, size_t>> places;
  for (Node& node : nodes_) {
    for (const Node::Step& step : node.steps) {
      if (step.pass != Pass::kForward) continue;
      node.inference = dynamic_cast<InferenceForward*>(step.implementation);
      if (node.inference)
        places.emplace_back(&node, plan.reserve(node.inference->prepared_bytes()));
    }
  }
  prepared_memory_ = Buffer(context_.device(), plan.bytes());
  for (const auto& [node, offset] : places) node->prepared = prepared_memory_.at(offset);
}

void Net::prepare_weights() {
  if (prepared_version_ == weights_.version()) return;
  prepared_version_ = weights_.version();
  const Run run{context_, workspace_.data(), workspace_bytes_,
                static_cast<const uint64_t*>(step_.data()), false};
  for (const Node& node : nodes_) {
    if (node.inference) node.inference->prepare_weights(run, node.tensors, node.prepared);
  }
}

void Net::run_aside(SideStream* aside) {
  aside_ = aside;
  // After a pass that threw, too, nothing is beside anything.
  asides_.clear();
  prepares_aside_ = false;
  if (!aside || workspace_aside_.data()) return;
  for (const Call& call : calls_) {
    if (!may_run_aside(call)) continue;
    workspace_aside_bytes_ = std::max(workspace_aside_bytes_,
                                      call.step->implementation->workspace_bytes(call.step->pass));
  }
  workspace_aside_ = Buffer(context_.device(), workspace_aside_bytes_ + kSlack);
}

void Net::join_aside() {
  aside_->join();
  asides_.clear();
  prepares_aside_ = false;
}

bool Net::prepare_aside() {
  prepares_aside_ = true;
  std::vector<Node*> nodes;
  for (size_t i = 0; i < plan_.forward_calls; ++i) {
    if (takes_prepared(calls_[i])) nodes.push_back(calls_[i].node);
  }
  prepares_aside_ = !nodes.empty();
  if (!prepares_aside_) return false;
  aside_->follow_main();
  const Run run{aside_->context(), workspace_aside_.data(), workspace_aside_bytes_,
                static_cast<const uint64_t*>(step_.data()), true};
  for (Node* node : nodes) node->inference->prepare_weights(run, node->tensors, node->prepared);
  return true;
}

bool Net::takes_prepared(const Call& call) const {
  const Node& node = *call.node;
  if (!prepares_aside_ || !node.inference || !node.inference->serves_training()) return false;
  if (node.inference->prepared_bytes() == 0) return false;
  if (call.step->pass == Pass::kForward) return true;
  return call.step->pass == Pass::kBackwardData &&
         dynamic_cast<InferenceForward*>(call.step->implementation) == node.inference;
}

// The others end the backward pass, and all waits for them.
bool Net::may_run_aside(const Call& call) const {
  return call.step->pass == Pass::kBackwardFilter && call.node->tensors.dx[0];
}

// Values that no call of the list needs at the same time share memory. So a pass waits for those beside
// it that read what it overwrites.
void Net::wait_for_readers(const Call& call) {
  if (call.step->pass == Pass::kForward) return;  // beside it only weights are prepared
  const LayerTensors& t = call.node->tensors;
  std::vector<Tensor> written = t.dx;
  written.push_back(t.state);
  // Which only backward_filter leaves there.
  if (call.step->pass == Pass::kBackwardFilter) written.push_back(call.node->staged.dy);
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
    const bool staged = are_written({reader.staged.x, reader.staged.dy});
    if (!state && !staged && !are_written(read.x) && !are_written(read.y) && !are_written(read.dy))
      continue;
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
    const auto step = std::find_if(node.steps.begin(), node.steps.end(),
                                   [&](const Node::Step& each) { return each.pass == call.pass; });
    calls_.push_back({&node, &*step});
  }
}

void Net::run_pass(const Call& call, const Run& run, bool trains) {
  const Node& node = *call.node;
  const LayerTensors& t = node.tensors;
  if (aside_) wait_for_readers(call);
  AsideScope scope(may_run_aside(call) ? aside_ : nullptr, run, workspace_aside_.data(),
                   workspace_aside_bytes_);
  // What keeps no state hands nothing from backward_filter to backward_data.
  const bool whole = call.step->implementation->state_bytes() == 0;
  if (takes_prepared(call)) {
    node.inference->backward_data_of_prepared(run, t, node.prepared);
  } else if (call.step->shares && trains) {
    call.step->shares->run_sharing(call.step->pass, run, t, node.staged,
                                   node.leaves ? node.moments : ChannelMoments());
  } else {
    call.step->implementation->run(call.step->pass, whole ? aside(run) : run, t);
  }
  if (scope.is_taken()) asides_.push_back({&node, aside_->mark()});
}

void Net::run(const Call& call, const uint64_t* number, bool training) {
  Node& node = *call.node;
  const Node::Step& step = *call.step;
  const Range range(step.label);
  const auto named = [&](const std::string& what) {
    return DeviceError(what + " (layer " + node.name + ", " + step.id + ", " +
                       std::string(to_string(step.pass)) + ", " + node.layer->problem_text() + ")");
  };
  const bool ends_forward =
      step.pass == Pass::kForward && !losses_.empty() && losses_.back().node == &node;
  try {
    const Running running(step.id, node.layer->type(), to_string(step.pass), node.name);
    const bool trains = training && mode_ != Mode::kGradients;
    const Run run{context_, workspace_.data(), workspace_bytes_, number, trains && !node.frozen};
    if (!trains && step.pass == Pass::kForward && node.inference) {
      prepare_weights();
      node.inference->infer(run, node.tensors, node.prepared);
    } else if (trains && step.pass == Pass::kForward && node.leaves && !step.shares) {
      node.leaves->forward_with_moments(run, node.tensors, node.moments);
    } else if (trains && step.pass == Pass::kForward && node.takes) {
      node.takes->forward_of_moments(run, node.tensors, node.moments);
    } else if (takes_prepared(call) && step.pass == Pass::kForward) {
      node.inference->infer(run, node.tensors, node.prepared);
    } else {
      run_pass(call, run, trains);
    }
    if (ends_forward) queue_objective();
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
