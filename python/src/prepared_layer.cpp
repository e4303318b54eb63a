#include "prepared_layer.h"

#include <algorithm>

#include "core/config.h"
#include "core/error.h"
#include "device/gpu_state.h"
#include "layers/layers.h"
#include "net/choose.h"
#include "net/yaml.h"

namespace duet::python {
namespace {

// The stream that Duet has of its own. Unlike CUDA's default stream it can be captured, as is done where
// algorithms are timed.
constexpr uintptr_t kOwnStream = 0;
// CUDA's default stream, cudaStreamLegacy: callers name it 0.
constexpr uintptr_t kLegacyStream = 1;
constexpr size_t kGpuAlignment = 16;

// One for each stream that was ever named: a handle costs milliseconds to make, and work may still be
// queued on it. They live as long as the process.
std::shared_ptr<Context> context_of(Device device, uintptr_t stream) {
  static std::mutex mutex;
  static auto* const contexts =
      new std::map<std::pair<Device, uintptr_t>, std::shared_ptr<Context>>;
  const std::lock_guard lock(mutex);
  std::shared_ptr<Context>& context = (*contexts)[{device, stream}];
  if (!context) {
    context = std::make_shared<Context>(device, reinterpret_cast<CUstream_st*>(stream));
  }
  return context;
}

// Grows to the largest that this thread ever needed.
void* cpu_workspace(size_t bytes) {
  static thread_local Buffer workspace;
  if (workspace.bytes() < bytes) workspace = Buffer(Device::kCpu, bytes);
  return workspace.data();
}

std::unique_ptr<Layer> make_layer(const LayerRequest& request) {
  const LayerType* type = find_layer_type(request.type);
  if (!type) {
    std::vector<std::string> names;
    for (const LayerType* each : layer_types()) names.emplace_back(each->name);
    throw ConfigError("no layer type '" + request.type + "'" + did_you_mean(request.type, names) +
                      "; there are: " + join(names));
  }
  ConfigNode keys = ConfigNode::map();
  if (!request.keys.empty() && request.keys != "{}") keys = read_yaml(request.keys, request.type);
  for (auto& [name, value] : keys.entries) value.mark = {};  // there is no file to point at
  keys.mark = {};
  ConfigErrors errors("");
  ConfigReader reader(keys, request.type, errors);
  auto layer = type->make(reader);
  reader.finish();
  try {
    errors.raise_if_any();
  } catch (const ConfigError& e) {
    const std::string text = e.what();  // ": conv2d: stride: expected ...", as there is no file
    throw ConfigError(text.starts_with(": ") ? text.substr(2) : text);
  }
  return layer;
}

BackendChoice read_backend(const LayerRequest& request) {
  if (!request.backend.starts_with("{")) return {.name = request.backend};
  BackendChoice choice;
  const ConfigNode map = read_yaml(request.backend, "backend");
  for (const auto& [name, value] : map.entries) {
    bool known = false;
    for (Pass pass :
         {Pass::kForward, Pass::kBackward, Pass::kBackwardData, Pass::kBackwardFilter}) {
      if (name != to_string(pass)) continue;
      choice.passes[pass] = value.scalar;
      known = true;
    }
    if (!known) {
      throw ConfigError("backend: no pass '" + name +
                        "'; there are forward, backward, backward_data and backward_filter");
    }
  }
  return choice;
}

}  // namespace

void synchronize_default_stream() { context_of(Device::kGpu, kLegacyStream)->synchronize(); }

PreparedLayer::PreparedLayer(const LayerRequest& request)
    : layer_(make_layer(request)), context_(context_of(request.device, kOwnStream)) {
  try {
    layer_->bind(request.inputs,
                 {.math = request.math, .seed = request.seed, .stream = request.stream});
  } catch (const ShapeError& e) {
    throw ShapeError(request.type + ": " + e.what());
  }
  choose(request);
  step_number_ = Buffer(device(), sizeof(uint64_t));
  fill_bytes(step_number_.data(), device(), 0, step_number_.bytes());
  if (device() == Device::kGpu) context_->synchronize();  // calls run on the caller's stream
}

void PreparedLayer::choose(const LayerRequest& request) {
  const std::string family = request.device == Device::kCpu ? "cpu" : "custom";
  const BackendChoice asked = read_backend(request);
  const std::vector<ImplInfo> list = layer_->implementations();
  const auto check = [&](const std::string& name) {
    if (name.empty()) return;
    std::vector<std::string> known;
    for (const ImplInfo& info : list) known.emplace_back(info.id);
    const bool listed = std::find(known.begin(), known.end(), name) != known.end();
    if (!listed && !family_from(name)) {
      refuse("no implementation '" + name + "'" + did_you_mean(name, known) +
                 "; there are: " + join(known) + ", and the families cpu, custom and cudnn",
             false);
    }
    const Device device = device_of(family_from(name) ? *family_from(name) : family_of(name));
    if (device == request.device) return;
    refuse("'" + name + "' runs on the " + (device == Device::kCpu ? "CPU" : "GPU") +
               ", and the arrays are on the " + (device == Device::kCpu ? "GPU" : "CPU") +
               "; move the arrays, or name another implementation",
           true);
  };
  check(asked.name);
  for (const auto& [pass, name] : asked.passes) check(name);

  // Where no gradient is asked for, one that has forward alone will do.
  const auto listed = std::find_if(list.begin(), list.end(),
                                   [&](const ImplInfo& info) { return info.id == asked.name; });
  const bool one = listed != list.end() && !family_from(asked.name) && asked.passes.empty();
  if (one && !request.gradient && !layer_->unsupported(asked.name, Pass::kForward)) {
    add_step(Pass::kForward, asked.name);
    return;
  }

  NetSpec spec;
  spec.backend.name = family;
  spec.math = request.math;
  LayerSpec layer_spec;
  layer_spec.backend = asked;
  const Choice choice = duet::choose(spec, layer_spec, *layer_, request.gradient);
  for (const PassChoice& each : choice.passes) {
    if (each.pass == Pass::kForward || request.gradient) add_step(each.pass, each.id);
  }
  const size_t wanted = request.gradient ? layer_->passes().size() : 1;
  if (steps_.size() == wanted) return;
  std::vector<std::string> reasons;
  const std::string prefix = label_of("", *layer_) + ": ";
  for (const Choice::Problem& problem : choice.problems) {
    const bool known = problem.text.starts_with(prefix);
    reasons.push_back(known ? problem.text.substr(prefix.size()) : problem.text);
  }
  refuse(join(reasons, "; "), choice.problems.empty() || choice.problems[0].unsupported);
}

void PreparedLayer::add_step(Pass pass, const std::string& id) {
  BoundOp* op = nullptr;
  for (const auto& [other, step] : steps_) {
    if (step.op->id() == id) op = step.op;
  }
  if (!op) {
    ops_.push_back(std::make_unique<BoundOp>(*layer_, id, *context_));
    op = ops_.back().get();
    state_bytes_ = std::max(state_bytes_, op->state_bytes());
  }
  op->prepare(pass);
  steps_[pass] = {op, op->workspace_bytes(pass)};
  reads_output_ |= pass != Pass::kForward && op->reads(pass).y;
}

std::vector<Pass> PreparedLayer::passes() const {
  std::vector<Pass> passes;
  for (Pass pass : layer_->passes()) {
    if (steps_.count(pass)) passes.push_back(pass);
  }
  return passes;
}

const PreparedLayer::Step& PreparedLayer::step(Pass pass) const {
  const auto found = steps_.find(pass);
  if (found != steps_.end()) return found->second;
  refuse("it was prepared without " + std::string(to_string(pass)), true);
}

size_t PreparedLayer::workspace_bytes(Pass pass) const {
  return device() == Device::kCpu ? 0 : step(pass).workspace_bytes;
}

std::string PreparedLayer::label() const {
  const std::string problem = layer_->problem_text();
  return std::string(layer_->type()) + (problem.empty() ? "" : " (" + problem + ")");
}

void PreparedLayer::refuse(const std::string& what, bool unsupported) const {
  if (unsupported) throw UnsupportedError(label() + ": " + what);
  throw ConfigError(label() + ": " + what);
}

// Kernels load 16 bytes at a time; a network's tensors all begin at multiples of more.
LayerTensors PreparedLayer::tensors(const LayerAddresses& addresses) const {
  const auto view = [this](uintptr_t address, const TensorDesc& desc) {
    const size_t alignment = device() == Device::kGpu ? kGpuAlignment : size_of(desc.dtype);
    if (address % alignment != 0) {
      refuse("the memory of an array (" + desc.to_string() + ") begins at no multiple of " +
                 std::to_string(alignment) + " bytes; copy the array",
             false);
    }
    return Tensor{desc, reinterpret_cast<void*>(address)};
  };
  const auto views = [&](const LayerAddresses::List& list, const std::vector<TensorDesc>& descs) {
    std::vector<Tensor> views(descs.size());
    for (size_t i = 0; i < list.size(); ++i) views.at(i) = view(list[i], descs[i]);
    return views;
  };
  LayerTensors t;
  t.x = views(addresses.x, layer_->inputs());
  t.y = views(addresses.y, layer_->outputs());
  t.dx = views(addresses.dx, layer_->inputs());
  t.dy = views(addresses.dy, layer_->outputs());
  const auto& parameters = layer_->parameters();
  t.w.resize(parameters.size());
  t.dw.resize(parameters.size());
  for (size_t i = 0; i < addresses.w.size(); ++i) {
    t.w.at(i) = view(addresses.w[i], parameters.at(i).desc);
  }
  for (size_t i = 0; i < addresses.dw.size(); ++i) {
    t.dw.at(i) = view(addresses.dw[i], parameters.at(i).desc);
  }
  if (state_bytes_) {
    t.state = view(addresses.state, opaque(state_bytes_));
  }
  return t;
}

void PreparedLayer::run(Pass pass, const LayerAddresses& addresses, const CallOptions& options) {
  if (device() == Device::kCpu) return run_on(*context_, pass, addresses, options);
  const uintptr_t stream = options.stream == 0 ? kLegacyStream : options.stream;
  run_on(*context_of(Device::kGpu, stream), pass, addresses, options);
}

void PreparedLayer::run_on(Context& context, Pass pass, const LayerAddresses& addresses,
                           const CallOptions& options) {
  const Step& at = step(pass);
  const bool cpu = device() == Device::kCpu;
  void* const workspace =
      cpu ? cpu_workspace(at.workspace_bytes) : reinterpret_cast<void*>(addresses.workspace);
  const auto* const number = reinterpret_cast<const uint64_t*>(
      options.step ? options.step : reinterpret_cast<uintptr_t>(step_number_.data()));
  const auto named = [&](const std::string& what) {
    return DeviceError(label() + ", " + at.op->id() + ", " + std::string(to_string(pass)) + ": " +
                       what);
  };
  const std::lock_guard lock(running_);
  try {
    // Several threads may run as many layers (core/running.h), and on streams of theirs.
    at.op->implementation().run(pass,
                                {context, workspace, at.workspace_bytes, number, options.training},
                                tensors(addresses));
  } catch (const DeviceError& e) {
    throw named(e.what());
  }
  if (cpu) return;
  if (const std::string error = gpu::take_error(); !error.empty()) {
    throw named("it left a CUDA error behind: " + error);
  }
}

}  // namespace duet::python
