#include "recorded_layer.h"

#include <algorithm>
#include <set>

#include "device/tuning_cache.h"
#include "layers/bound_op.h"
#include "measure/check/layer_data.h"
#include "selection.h"

namespace duet {
namespace {

/// What cannot be measured without a GPU. Algorithm 1 exists for every size, is repeatable, and adds a
/// bias.
std::optional<TuningCache::Entry> unmeasured(const std::string& key) {
  if (key.find("checked beyond storing") != std::string::npos) {
    return TuningCache::Entry{{"algorithm", 1}, {"adds_bias", 1}, {"nanoseconds", 0}};
  }
  if (key.find("plan of the graph API") != std::string::npos) {
    const bool adds_bias =
        key.find("bias=true") != std::string::npos && key.find("forward |") != std::string::npos;
    return TuningCache::Entry{
        {"engine", 0}, {"adds_bias", adds_bias}, {"narrow_bias", 0}, {"narrow_dw", 0}};
  }
  if (key.rfind("bias gradient", 0) == 0) return TuningCache::Entry{{"way", 1}};
  if (key.rfind("max pooling backward", 0) == 0) return TuningCache::Entry{{"deterministic", 1}};
  if (key.find("cuBLASLt") != std::string::npos) {
    TuningCache::Entry entry = {{"kind", key.find("relu") == std::string::npos ? 0 : 1},
                                {"workspace", 0}};
    for (int word = 0; word < 8; ++word) entry["word" + std::to_string(word)] = 0;
    return entry;
  }
  return {};
}

std::vector<Pass> passes_to_run(const Layer& layer, const std::string& id, Pass pass) {
  std::vector<Pass> passes;
  for (const Pass before : passes_before(layer, pass)) {
    if (!layer.unsupported(id, before)) passes.push_back(before);
  }
  passes.push_back(pass);
  return passes;
}

/// The memory of a layer, as a network gives it to it.
class Memory {
 public:
  explicit Memory(const Layer& layer) : layer_(layer) {
    using Role = NamedMemory::Role;
    const auto& inputs = layer.inputs();
    const auto& outputs = layer.outputs();
    for (size_t i = 0; i < inputs.size(); ++i) {
      const auto fields = layer.fields();
      const std::string name =
          i == 0 || fields.empty() ? numbered("x", i, inputs) : std::string(fields[i - 1]);
      tensors.x.push_back(add({name, Role::kRead, 0, 0, inputs[i], "", &LayerData::x, i}));
      const bool gradient = layer.has_gradient(i);
      const bool again = layer.is_sum() && i > 0;
      tensors.dx.push_back(!gradient ? Tensor{}
                           : again   ? tensors.dx[0]
                                     : add({layer.is_sum() ? "dx" : numbered("dx", i, inputs),
                                            Role::kWritten, 0, 0, inputs[i], indexed("dx", i)}));
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      const bool again = layer.is_sum() && i > 0;
      tensors.y.push_back(
          again ? tensors.y[0]
                : add({output_name("y", i), Role::kWritten, 0, 0, outputs[i], indexed("y", i)}));
      tensors.dy.push_back(is_float(outputs[i].dtype)
                               ? add({numbered_output("dy", i), Role::kRead, 0, 0, outputs[i], "",
                                      &LayerData::dy, i})
                               : Tensor{});
    }
    for (size_t i = 0; i < layer.parameters().size(); ++i) {
      const ParameterSpec& parameter = layer.parameters()[i];
      const std::string name = parameter_name(parameter.name);
      const bool trained = parameter.trained();
      tensors.w.push_back(add({name, Role::kRead, 0, 0, parameter.desc,
                               trained ? "" : parameter.name, &LayerData::w, i}));
      tensors.dw.push_back(trained ? add({"d" + name, Role::kWritten, 0, 0, parameter.desc,
                                          indexed("dw", i) + " " + parameter.name})
                                   : Tensor{});
    }
  }

  void add_state(size_t bytes) {
    add({"state", NamedMemory::Role::kState, 0, bytes});
    tensors.state = {{{static_cast<int64_t>(bytes)}, DType::kUInt8}, buffers_.back().data()};
  }
  void* add_workspace(size_t bytes) {
    add({"workspace", NamedMemory::Role::kWorkspace, 0, bytes});
    return buffers_.back().data();
  }

  LayerTensors tensors;
  std::vector<NamedMemory> named;

 private:
  Tensor add(NamedMemory memory) {
    const TensorDesc desc = memory.desc;
    if (memory.role != NamedMemory::Role::kState && memory.role != NamedMemory::Role::kWorkspace) {
      memory.bytes = desc.bytes();
    }
    buffers_.emplace_back(Device::kGpu, memory.bytes);
    if (memory.bytes > 0) fill_bytes(buffers_.back().data(), Device::kGpu, 0, memory.bytes);
    memory.address = reinterpret_cast<uintptr_t>(buffers_.back().data());
    named.push_back(std::move(memory));
    return {desc, buffers_.back().data()};
  }
  static std::string indexed(const std::string& name, size_t i) {
    return name + "[" + std::to_string(i) + "]";
  }
  static std::string numbered(const std::string& name, size_t i,
                              const std::vector<TensorDesc>& all) {
    size_t activations = 0;
    for (const TensorDesc& desc : all) activations += is_float(desc.dtype);
    return activations > 1 ? name + std::to_string(i + 1) : name;
  }
  /// A loss has two outputs of a meaning each; the others of a sum are one in memory.
  std::string output_name(const std::string& name, size_t i) const {
    if (layer_.is_loss()) return i == 0 ? "loss" : "hits";
    return layer_.is_sum() ? name : numbered(name, i, layer_.outputs());
  }
  std::string numbered_output(const std::string& name, size_t i) const {
    return layer_.is_loss() ? "dloss" : numbered(name, i, layer_.outputs());
  }
  /// w and b, as in formulas; a normalisation's have names of their own.
  std::string parameter_name(const std::string& name) const {
    const bool weighted = layer_.passes().size() == 3;
    if (weighted && name == "weight") return "w";
    if (weighted && name == "bias") return "b";
    return name;
  }

  const Layer& layer_;
  std::vector<Buffer> buffers_;
};

/// What calls of the passes read and no tensor of the layer is.
void read_contents(RecordedLayer& recorded) {
  constexpr size_t kMost = size_t{64} << 20;
  std::map<uintptr_t, size_t> allocations;
  bool running = false;
  for (const Record& record : recorded.records) {
    if (record.kind == Record::Kind::kAllocation) {
      allocations[std::stoull(record.name, nullptr, 16)] = record.bytes;
    }
    running |= record.kind == Record::Kind::kMark;
    if (record.kind != Record::Kind::kCall || !running) continue;
    std::vector<uintptr_t> addresses = addresses_in(record);
    for (const RecordedArgument& argument : record.arguments) {
      if (argument.constant) addresses.push_back(address_of(argument));
    }
    for (const uintptr_t address : addresses) {
      auto found = allocations.upper_bound(address);
      if (address == 0 || found == allocations.begin()) continue;
      --found;
      const auto& [begin, bytes] = *found;
      const auto is_it = [&, begin = begin](const NamedMemory& m) { return m.address == begin; };
      const bool named = std::any_of(recorded.memory.begin(), recorded.memory.end(), is_it);
      if (named || bytes > kMost || address >= begin + bytes || recorded.contents.count(begin)) {
        continue;
      }
      recorded.contents[begin] =
          download(reinterpret_cast<const void*>(begin), Device::kGpu, bytes);
    }
  }
}

}  // namespace

void stand_in_for_measurements() { TuningCache::answer_instead(unmeasured); }

RecordedLayer record_layer(std::shared_ptr<const Layer> layer, const std::string& id, Pass pass,
                           size_t workspace_limit) {
  RecordedLayer recorded = {.layer = layer, .id = id, .pass = pass};
  if (recorder_stands_in()) {
    recorded.measured = false;
    stand_in_for_measurements();
  }
  take_records();
  Context context(Device::kGpu);
  context.set_workspace_limit(workspace_limit);
  BoundOp op(*layer, id, context);
  const std::vector<Pass> passes = passes_to_run(*layer, id, pass);
  op.prepare(passes);
  const size_t workspace_bytes = op.workspace_bytes(passes);
  Memory memory(*layer);
  memory.add_state(op.state_bytes());
  void* const workspace = memory.add_workspace(workspace_bytes);
  const Buffer step(Device::kGpu, sizeof(uint64_t));
  fill_bytes(step.data(), Device::kGpu, 0, step.bytes());
  const Run run{context, workspace, workspace_bytes, static_cast<const uint64_t*>(step.data()),
                true};
  for (const Pass each : passes) {
    mark("pass " + std::string(to_string(each)));
    op.run(each, run, memory.tensors);
    context.synchronize();
  }
  recorded.records = take_records();
  recorded.detail = op.detail(pass);
  recorded.memory = memory.named;
  read_contents(recorded);
  return recorded;
}

}  // namespace duet
