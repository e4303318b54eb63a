#include "compare/network_check.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "compare/activations.h"
#include "compare/running_graph.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "measure/classify.h"
#include "measure/guarded_buffer.h"

namespace duet {
namespace {

using Bytes = std::vector<std::byte>;

constexpr double kMostOperations = 1e8;  // of the reference of a layer, over all passes
constexpr int64_t kRows = 16;
constexpr double kMostWatched = 5e8;  // bytes compared in a step

Bytes bytes_of(const Tensor& tensor, Device device) {
  return download(tensor.memory, device, tensor.bytes());
}

LayerSituation in_training(const Net::Node& node) { return {.training = !node.frozen}; }

/// What a pass writes, in the order of Reference's outputs; without a dx that nobody needs.
std::vector<Tensor> outputs_of(Pass pass, const Net::Node& node, const LayerSituation& situation) {
  const LayerTensors& t = node.tensors;
  std::vector<Tensor> outputs;
  const auto add = [&](const std::vector<Tensor>& tensors) {
    std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(outputs),
                 [](const Tensor& tensor) { return static_cast<bool>(tensor); });
  };
  if (pass == Pass::kForward) {
    add(t.y);
    for (size_t i = 0; i < t.w.size(); ++i) {
      if (situation.updates(node.layer->parameters()[i])) outputs.push_back(t.w[i]);
    }
    return outputs;
  }
  if (pass != Pass::kBackwardFilter) add(t.dx);
  if (pass != Pass::kBackwardData) add(t.dw);
  return outputs;
}

bool is_one_of(const std::vector<Tensor>& tensors, const Tensor& tensor) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [&](const Tensor& each) { return each.memory == tensor.memory; });
}

bool overlap(const Tensor& a, const Tensor& b) {
  const char *first = a.data<char>(), *second = b.data<char>();
  return first < second + b.bytes() && second < first + a.bytes();
}

/// What one layer reads and writes in a step, of all rows of the batch or of some.
class SeenLayer {
 public:
  SeenLayer(Net::Node& node, const std::vector<Pass>& passes, const LayerSituation& situation,
            Device device)
      : node_(node), passes_(passes), situation_(situation), device_(device) {
    const Layer& layer = *node.layer;
    const int64_t batch = layer.inputs()[0].shape[0];
    double operations = 0;
    for (Pass pass : passes) operations += layer.flops(pass);
    if (operations <= kMostOperations || batch <= kRows) return;
    for (int64_t i = 0; i < kRows; ++i) rows_.push_back(i * (batch - 1) / (kRows - 1));
    std::vector<TensorDesc> inputs = layer.inputs();
    for (TensorDesc& input : inputs) input.shape = input.shape.with(0, kRows);
    part_ = layer.clone();
    part_->bind(inputs, layer.options());
  }

  const Net::Node& node() const { return node_; }
  bool is_sampled() const { return part_ != nullptr; }

  void read_inputs(uint64_t step) {
    for (const Tensor& x : node_.tensors.x) data_.x.push_back(rows_of(x));
    for (const Tensor& w : node_.tensors.w) data_.w.push_back(values_of(w, device_));
    for (const TensorDesc& y : layer().outputs()) {
      data_.dy.emplace_back(is_float(y.dtype) ? static_cast<size_t>(y.elements()) : 0);
    }
    data_.step = step;
  }

  /// Reads dy, and writes it back where rounding would decide its way (Layer::settle). Whether it
  /// has written.
  bool read_gradients() {
    if (has_gradients_) return false;
    has_gradients_ = true;
    for (size_t i = 0; i < data_.dy.size(); ++i) {
      if (!data_.dy[i].empty()) data_.dy[i] = rows_of(node_.tensors.dy[i]);
    }
    const auto before = data_.dy;
    layer().settle(data_.x, data_.w, data_.dy);
    if (data_.dy == before) return false;
    write_gradients();
    return true;
  }

  /// Runs `run` with a dy that is zero in all rows that are not looked at, and restores it.
  template <class Run>
  void with_masked_gradients(Run&& run) {
    std::vector<Bytes> kept;
    for (const Tensor& dy : node_.tensors.dy) {
      kept.push_back(dy ? bytes_of(dy, device_) : Bytes());
      if (dy) fill_bytes(dy.memory, device_, 0, dy.bytes());
    }
    write_gradients();
    run();
    for (size_t i = 0; i < kept.size(); ++i) {
      if (kept[i].empty()) continue;
      copy_bytes(node_.tensors.dy[i].memory, device_, kept[i].data(), Device::kCpu, kept[i].size());
    }
  }

  /// All but the buffers that it updates.
  void poison_outputs(Pass pass) {
    for (const Tensor& output : outputs_of(pass, node_, situation_)) {
      if (is_one_of(node_.tensors.w, output)) continue;  // read as well
      fill_bytes(output.memory, device_, kPoison, output.bytes());
    }
  }
  void read_outputs(Pass pass) {
    auto& found = found_[pass];
    for (const Tensor& output : outputs_of(pass, node_, situation_)) {
      const bool parameter =
          is_one_of(node_.tensors.dw, output) || is_one_of(node_.tensors.w, output);
      found.push_back(parameter ? values_of(output, device_) : rows_of(output));
    }
  }

  /// The passes that are wrong.
  std::vector<NetworkFault> faults() const {
    std::vector<NetworkFault> all;
    if (found_.empty()) return all;
    const Reference expected =
        run_reference(layer(), data_, situation_, passes_, InterruptGuard::requested);
    for (const auto& step : node_.steps) {
      const auto found = found_.find(step.pass);
      if (found == found_.end()) continue;
      std::vector<NamedValues> wanted = expected.of(step.pass);
      std::erase_if(wanted, [&](const NamedValues& output) { return is_unneeded(output.name); });
      std::vector<NamedValues> outputs = wanted;
      std::vector<TensorResult> tensors;
      for (size_t i = 0; i < outputs.size(); ++i) {
        outputs[i].desc.dtype = dtype_of(step.pass, i);
        outputs[i].values = found->second[i];
        tensors.push_back(hold_to(wanted[i], outputs[i], layer(), step.pass));
      }
      if (all_agree(tensors)) continue;
      const Fault fault = classify(tensors, outputs, wanted);
      all.push_back({node_.name,
                     std::string(to_string(step.pass)),
                     {FaultKind::kWrongInNetwork, words(fault.text)}});
    }
    return all;
  }

 private:
  const Layer& layer() const { return part_ ? *part_ : *node_.layer; }

  DType dtype_of(Pass pass, size_t output) const {
    return outputs_of(pass, node_, situation_)[output].desc.dtype;
  }

  // A dx that the reference has and the network has not.
  bool is_unneeded(const std::string& name) const {
    for (size_t i = 0; i < node_.tensors.dx.size(); ++i) {
      if (!node_.tensors.dx[i] && name == "dx[" + std::to_string(i) + "]") return true;
    }
    return false;
  }

  std::string words(const std::string& text) const {
    const int64_t batch = node_.layer->inputs()[0].shape[0];
    return std::string(situation_.training ? "in the network" : "in evaluation mode") +
           " at batch " + std::to_string(batch) +
           (part_ ? " (" + std::to_string(kRows) + " of its rows)" : "") + ": " + text;
  }

  /// Its values in the rows that are looked at.
  std::vector<double> rows_of(const Tensor& tensor) const {
    std::vector<double> values = values_of(tensor, device_);
    if (rows_.empty()) return values;
    const auto row = static_cast<int64_t>(values.size()) / batch();
    std::vector<double> some;
    for (int64_t r : rows_) {
      some.insert(some.end(), values.begin() + r * row, values.begin() + (r + 1) * row);
    }
    return some;
  }

  void write_gradients() {
    for (size_t i = 0; i < data_.dy.size(); ++i) {
      const Tensor& dy = node_.tensors.dy[i];
      if (data_.dy[i].empty()) continue;
      TensorDesc desc = dy.desc;
      if (!rows_.empty()) desc.shape = desc.shape.with(0, kRows);
      const Bytes bytes = encode(desc, data_.dy[i]);
      const size_t pieces = rows_.empty() ? 1 : rows_.size(), size = bytes.size() / pieces;
      for (size_t k = 0; k < pieces; ++k) {
        const size_t to = rows_.empty() ? 0 : static_cast<size_t>(rows_[k]);
        copy_bytes(dy.data<char>() + to * size, device_, bytes.data() + k * size, Device::kCpu,
                   size);
      }
    }
  }

  int64_t batch() const { return node_.layer->inputs()[0].shape[0]; }

  Net::Node& node_;
  const std::vector<Pass> passes_;
  const LayerSituation situation_;
  const Device device_;
  std::vector<int64_t> rows_;  // empty: all
  std::unique_ptr<Layer> part_;
  LayerData data_;
  bool has_gradients_ = false;
  std::map<Pass, std::vector<std::vector<double>>> found_;
};

/// Every tensor of the network, to see which of them a call changes.
class TensorWatch {
 public:
  explicit TensorWatch(Net& net) : device_(net.context().device()) {
    for (const auto& [name, value] : net.plan().fields) add("the " + name, {net.field(name)});
    for (const Net::Node& node : net.nodes()) {
      const LayerTensors& t = node.tensors;
      if (node.layer->passes().empty()) continue;  // its tensors are its neighbours'
      add("the output of layer " + node.name, t.y);
      add("the gradient of the output of layer " + node.name, t.dy);
      add("a parameter of layer " + node.name, t.w);
      add("the gradient of a parameter of layer " + node.name, t.dw);
      add("the state of layer " + node.name, {t.state});
      add("what the passes of layer " + node.name + " share",
          {node.staged.x, node.staged.dy, node.staged.w});
    }
    double bytes = 0;
    for (const Region& region : regions_) bytes += static_cast<double>(region.tensor.bytes());
    if (bytes * static_cast<double>(net.calls().size()) > kMostWatched) regions_.clear();
    look();
  }

  void look() {
    for (Region& region : regions_) region.bytes = bytes_of(region.tensor, device_);
  }

  /// What has changed since it was last looked at and is none of the call's own; empty if nothing.
  /// What lies in the memory that the call writes is needed no more.
  std::string changed_by(const Net::Call& call) {
    std::vector<Tensor> own = outputs_of(call.step->pass, *call.node, in_training(*call.node));
    own.push_back(call.node->tensors.state);
    const StagedTensors& staged = call.node->staged;
    if (call.step->pass == Pass::kForward) own.insert(own.end(), {staged.x, staged.w});
    if (call.step->pass == Pass::kBackwardFilter) own.push_back(staged.dy);
    std::string text;
    for (Region& region : regions_) {
      Bytes now = bytes_of(region.tensor, device_);
      const bool is_own = std::any_of(own.begin(), own.end(), [&](const Tensor& tensor) {
        return overlap(tensor, region.tensor);
      });
      if (!is_own && now != region.bytes) text += (text.empty() ? "" : ", ") + region.name;
      region.bytes = std::move(now);
    }
    return text;
  }

 private:
  struct Region {
    std::string name;
    Tensor tensor;
    Bytes bytes;
  };

  void add(const std::string& name, const std::vector<Tensor>& tensors) {
    for (const Tensor& tensor : tensors) {
      if (tensor && tensor.bytes() > 0) regions_.push_back({name, tensor, {}});
    }
  }

  const Device device_;
  std::vector<Region> regions_;
};

class NetworkCheck {
 public:
  explicit NetworkCheck(RunningArm& arm)
      : arm_(arm), training_(arm.training()), net_(training_.net()), context_(arm.context()) {
    training_.weights().initialise(arm.setup().spec.seed);
  }

  std::vector<NetworkFault> run() {
    check_training();
    check_evaluation();
    return std::move(faults_);
  }

 private:
  void check_training() {
    const uint64_t step = training_.state().step;
    std::map<const Net::Node*, std::unique_ptr<SeenLayer>> layers;
    TensorWatch watch(net_);
    for (const Operation& operation : training_.program()) {
      InterruptGuard::check();
      if (operation.kind == Operation::Kind::kGather) {
        operation.queue();
        context_.synchronize();
        watch.look();
      }
      if (operation.kind != Operation::Kind::kLayer) continue;
      const Net::Call& call = *operation.call;
      auto& layer = layers[call.node];
      if (!layer) {
        layer = std::make_unique<SeenLayer>(*call.node, passes_of(*call.node),
                                            in_training(*call.node), context_.device());
        layer->read_inputs(step);
      }
      if (call.step->pass != Pass::kForward && layer->read_gradients()) watch.look();
      if (!run(operation, *layer)) return;  // what follows has no input
      const std::string changed = watch.changed_by(call);
      if (changed.empty()) continue;
      faults_.push_back({call.node->name,
                         std::string(to_string(call.step->pass)),
                         {FaultKind::kWrongInNetwork,
                          "in the network it writes to what is not its own: " + changed}});
    }
    for (const Net::Node& node : net_.nodes()) {
      if (layers.contains(&node)) add(layers[&node]->faults());
    }
  }

  /// Whether the call could be made.
  bool run(const Operation& operation, SeenLayer& layer) {
    const Pass pass = operation.call->step->pass;
    try {
      if (pass == Pass::kBackwardFilter && layer.is_sampled()) {
        layer.with_masked_gradients([&] {
          layer.poison_outputs(pass);
          operation.queue();
          context_.synchronize();
          layer.read_outputs(pass);
        });
        operation.queue();
        context_.synchronize();
        return true;
      }
      layer.poison_outputs(pass);
      operation.queue();
      context_.synchronize();
      layer.read_outputs(pass);
    } catch (const InterruptedError&) {
      throw;
    } catch (const std::exception& error) {
      faults_.push_back(
          {operation.layer,
           operation.pass,
           {FaultKind::kFailed, std::string("failed in the network: ") + error.what()}});
      return false;
    }
    return true;
  }

  void check_evaluation() {
    std::vector<SeenLayer> layers;
    for (Net::Node& node : net_.nodes()) {
      if (node.layer->is_view(Pass::kForward)) continue;
      layers.emplace_back(node, std::vector{Pass::kForward}, LayerSituation{.training = false},
                          context_.device());
      layers.back().poison_outputs(Pass::kForward);
    }
    {
      const auto graph = running_graph(arm_, "the evaluation of a batch");
      training_.evaluation().restart();
      training_.evaluation().step();
      context_.synchronize();
    }
    for (SeenLayer& layer : layers) {
      layer.read_inputs(0);
      layer.read_outputs(Pass::kForward);
      add(layer.faults());
    }
  }

  std::vector<Pass> passes_of(const Net::Node& node) const {
    std::vector<Pass> passes;
    for (const Net::Call& call : net_.calls()) {
      if (call.node == &node) passes.push_back(call.step->pass);
    }
    return passes;
  }

  void add(std::vector<NetworkFault> faults) {
    for (NetworkFault& fault : faults) faults_.push_back(std::move(fault));
  }

  RunningArm& arm_;
  Training& training_;
  Net& net_;
  Context& context_;
  std::vector<NetworkFault> faults_;
};

}  // namespace

std::vector<NetworkFault> check_network(RunningArm& arm) { return NetworkCheck(arm).run(); }

}  // namespace duet
