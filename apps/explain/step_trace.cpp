#include "step_trace.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/error.h"
#include "device/context.h"
#include "net/net.h"
#include "program_text.h"
#include "recorded_layer.h"
#include "selection.h"

namespace duet {
namespace {

struct NamedRegion {
  std::string name;
  uintptr_t begin;
  size_t bytes;
};

NamedRegion region(const std::string& name, const void* memory, size_t bytes) {
  return {name, reinterpret_cast<uintptr_t>(memory), bytes};
}

/// What a layer calls its memory; the first that fits is the best.
std::vector<NamedRegion> regions_of(const Net& net, const Net::Node& node) {
  std::vector<NamedRegion> regions;
  const auto add = [&](const std::string& name, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i]) continue;
      const std::string number = tensors.size() > 1 ? std::to_string(i + 1) : "";
      regions.push_back(region(name + number, tensors[i].memory, tensors[i].bytes()));
    }
  };
  const auto add_parameters = [&](const std::string& before, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i]) continue;
      regions.push_back(
          region(before + node.layer->parameters()[i].name, tensors[i].memory, tensors[i].bytes()));
    }
  };
  add("x", node.tensors.x);
  add("y", node.tensors.y);
  add("dx", node.tensors.dx);
  add("dy", node.tensors.dy);
  add_parameters("", node.tensors.w);
  add_parameters("d", node.tensors.dw);
  if (const Tensor& state = node.tensors.state) {
    regions.push_back(region("state", state.memory, state.bytes()));
  }
  regions.push_back(region("workspace", net.workspace().data(), net.workspace().bytes()));
  return regions;
}

/// Objects by what was set in them last.
class Objects {
 public:
  void see(const Record& record) {
    if (record.arguments.empty() || record.arguments[0].kind != "object") return;
    const bool sets = record.name.find("Set") != std::string::npos &&
                      record.name.find("Stream") == std::string::npos &&
                      record.name.find("Workspace") == std::string::npos;
    if (!sets && record.name != "cufftMakePlanMany") return;
    std::string text;
    for (size_t i = 1; i < record.arguments.size(); ++i) {
      const RecordedArgument& argument = record.arguments[i];
      if (argument.kind != "enum" && argument.kind != "number") continue;
      std::string word = argument.text();
      if (word.rfind("CUDNN_", 0) == 0) word.erase(0, std::strlen("CUDNN_"));
      text += (text.empty() ? "" : " ") + word;
    }
    std::string& set = texts_[record.arguments[0].text()];
    // A convolution's groups and arithmetic come by calls of their own.
    const bool more = record.name.find("GroupCount") != std::string::npos ||
                      record.name.find("MathType") != std::string::npos ||
                      record.name.find("Attribute") != std::string::npos;
    set = more ? set + (set.empty() ? "" : ", ") + text : text;
  }
  std::string text_of(const RecordedArgument& argument) const {
    if (argument.type == "cudnnHandle_t") return "cudnn";
    if (argument.type == "cudaStream_t") return "stream";
    if (argument.type.rfind("cublas", 0) == 0 &&
        argument.type.find("Handle") != std::string::npos) {
      return "cublas";
    }
    const auto found = texts_.find(argument.text());
    return found == texts_.end() ? argument.type : "{" + found->second + "}";
  }

 private:
  std::map<std::string, std::string> texts_;
};

/// "x", "workspace + 1024 bytes". A tensor that is changed in place has two names: then the
/// argument's own, if it is one of them.
std::string memory_text(const RecordedArgument& argument, const std::vector<NamedRegion>& regions) {
  const uintptr_t address = address_of(argument);
  if (address == 0) return "nullptr";
  const NamedRegion* best = nullptr;
  for (const NamedRegion& one : regions) {
    if (address < one.begin || address >= one.begin + std::max<size_t>(one.bytes, 1)) continue;
    if (!best || (one.begin == best->begin && one.name == argument.name)) best = &one;
  }
  if (!best) return argument.text();
  if (address == best->begin) return best->name;
  return best->name + " + " + std::to_string(address - best->begin) + " bytes";
}

std::string call_text(const Record& record, const Objects& objects,
                      const std::vector<NamedRegion>& regions) {
  std::string text, line = "  " + record.name + "(";
  for (size_t i = 0; i < record.arguments.size(); ++i) {
    const RecordedArgument& argument = record.arguments[i];
    std::string value = argument.kind == "object"   ? objects.text_of(argument)
                        : argument.kind == "memory" ? memory_text(argument, regions)
                        : argument.kind == "algorithm" || argument.kind == "bytes"
                            ? "..."
                            : argument.text();
    const bool last = i + 1 == record.arguments.size();
    value = argument.name + " " + value + (last ? ")" : ",");
    if (i > 0 && line.size() + 1 + value.size() > kColumns) {
      text += line + "\n";
      line = "      " + value;
    } else {
      line += (i > 0 ? " " : "") + value;
    }
  }
  return text + line + "\n";
}

void check(const Setup& setup) {
  for (const ResolvedLayer& layer : setup.layers) {
    for (const PassChoice& choice : layer.passes) {
      if (choice.id != kAuto) continue;
      throw ConfigError("explain --trace: layer " + layer.name +
                        " has 'backend: auto', which measures; take --backend cudnn, or another");
    }
  }
  if (device_of(setup.spec) == Device::kCpu) {
    throw ConfigError(
        "explain --trace: the network runs on the CPU and calls none of NVIDIA's libraries; take "
        "--backend cudnn");
  }
}

}  // namespace

std::string step_trace(Setup& setup) {
  check(setup);
  Context context(Device::kGpu);
  context.set_workspace_limit(workspace_limit(setup.spec));
  if (recorder_stands_in()) stand_in_for_measurements();
  Weights weights(setup.layers, setup.spec.seed, Device::kGpu);
  Net net(setup.layers, weights, context);
  const Buffer step(Device::kGpu, sizeof(uint64_t));
  Objects objects;
  std::vector<NamedRegion> own;  // what implementations took when they were made
  for (const Record& record : take_records()) {
    if (record.kind == Record::Kind::kCall) objects.see(record);
    if (record.kind != Record::Kind::kAllocation) continue;
    own.push_back({"memory of " + std::to_string(record.bytes) + " bytes",
                   std::stoull(record.name, nullptr, 16), record.bytes});
  }
  std::string text;
  if (recorder_stands_in()) {
    text +=
        "No GPU is here: algorithms were not measured, and calls that need a GPU were answered by "
        "Duet's recorder.\n\n";
  }
  for (const Net::Call& call : net.calls()) {
    net.run(call, static_cast<const uint64_t*>(step.data()));
    context.synchronize();
    std::vector<NamedRegion> regions = regions_of(net, *call.node);
    regions.insert(regions.end(), own.rbegin(), own.rend());  // the latest first: memory is reused
    text += call.step->label + "\n";
    bool any = false;
    for (const Record& record : take_records()) {
      any |= record.kind == Record::Kind::kCall || record.kind == Record::Kind::kKernel;
      if (record.kind == Record::Kind::kKernel) {
        text += "  kernel of Duet's: " + short_name(record.name) + "\n";
      }
      if (record.kind != Record::Kind::kCall) continue;
      objects.see(record);
      text += call_text(record, objects, regions);
    }
    if (!any) text += "  nothing\n";
  }
  return text + "update\n  kernels of Duet's\n";
}

}  // namespace duet
