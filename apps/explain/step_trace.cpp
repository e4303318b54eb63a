#include "step_trace.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "core/error.h"
#include "device/context.h"
#include "net/net.h"
#include "recorded_layer.h"
#include "selection.h"

namespace duet {
namespace {

constexpr size_t kColumns = 100;

/// What a network's layer calls its memory.
std::map<uintptr_t, std::string> names_of(const Net::Node& node) {
  std::map<uintptr_t, std::string> names;
  const auto add = [&](const std::string& name, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i]) continue;
      const std::string number = tensors.size() > 1 ? std::to_string(i + 1) : "";
      names.emplace(reinterpret_cast<uintptr_t>(tensors[i].memory), name + number);
    }
  };
  const auto add_parameters = [&](const std::string& before, const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (!tensors[i]) continue;
      names.emplace(reinterpret_cast<uintptr_t>(tensors[i].memory),
                    before + node.layer->parameters()[i].name);
    }
  };
  add("x", node.tensors.x);
  add("y", node.tensors.y);
  add("dx", node.tensors.dx);
  add("dy", node.tensors.dy);
  add_parameters("", node.tensors.w);
  add_parameters("d", node.tensors.dw);
  if (node.tensors.state.memory) {
    names.emplace(reinterpret_cast<uintptr_t>(node.tensors.state.memory), "state");
  }
  return names;
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

std::string memory_text(uintptr_t address, const std::map<uintptr_t, std::string>& names) {
  if (address == 0) return "nullptr";
  const auto found = names.find(address);
  if (found != names.end()) return found->second;
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
  return text;
}

std::string call_text(const Record& record, const Objects& objects,
                      const std::map<uintptr_t, std::string>& names) {
  std::string text, line = "  " + record.name + "(";
  for (size_t i = 0; i < record.arguments.size(); ++i) {
    const RecordedArgument& argument = record.arguments[i];
    std::string value = argument.kind == "object"   ? objects.text_of(argument)
                        : argument.kind == "memory" ? memory_text(address_of(argument), names)
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
  const auto see_all = [&](const std::vector<Record>& records) {
    for (const Record& record : records) {
      if (record.kind == Record::Kind::kCall) objects.see(record);
    }
  };
  see_all(take_records());
  std::string text;
  if (recorder_stands_in()) {
    text +=
        "No GPU is here: algorithms were not measured, and calls that need a GPU were answered by "
        "Duet's recorder.\n\n";
  }
  for (const Net::Call& call : net.calls()) {
    net.run(call, static_cast<const uint64_t*>(step.data()));
    context.synchronize();
    const auto names = names_of(*call.node);
    text += call.step->label + "\n";
    bool any = false;
    for (const Record& record : take_records()) {
      any |= record.kind == Record::Kind::kCall || record.kind == Record::Kind::kKernel;
      if (record.kind == Record::Kind::kKernel) {
        text += "  kernel of Duet's: " + short_name(record.name) + "\n";
      }
      if (record.kind != Record::Kind::kCall) continue;
      objects.see(record);
      text += call_text(record, objects, names);
    }
    if (!any) text += "  nothing\n";
  }
  return text + "update\n  kernels of Duet's\n";
}

}  // namespace duet
