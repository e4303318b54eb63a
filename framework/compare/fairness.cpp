#include "compare/fairness.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compare/distinct.h"
#include "core/config.h"
#include "layers/split_products.h"

namespace duet {

namespace {

std::string both(const std::vector<std::string>& texts) {
  if (texts.size() < 2) return join(texts);
  return join({texts.begin(), texts.end() - 1}) + " and " + texts.back();
}

// The layers of every arm's network by name; of two of one name the first.
using Networks = std::vector<std::map<std::string, const NetworkLayer*>>;

Networks networks_of(const Results& results) {
  Networks networks;
  for (const ArmRecord& arm : results.arms) {
    auto& layers = networks.emplace_back();
    for (const NetworkLayer& layer : arm.network) layers.emplace(layer.name, &layer);
  }
  return networks;
}

const NetworkLayer* layer_of(const Networks& networks, size_t arm, const std::string& name) {
  const auto found = networks[arm].find(name);
  return found == networks[arm].end() ? nullptr : found->second;
}

// How an arm computes a block. Results of before calls were noted say nothing.
enum class Way { kUnknown, kOwnKernels, kCalls, kLayerByLayer };

Way way_of(const NetworkLayer* layer) {
  if (!layer) return Way::kLayerByLayer;
  bool calls = false;
  for (const NetworkPass& pass : layer->passes) {
    if (!pass.calls) return Way::kUnknown;
    calls = calls || !pass.calls->empty();
  }
  return calls ? Way::kCalls : Way::kOwnKernels;
}

std::vector<std::string> blocks_of(const Results& results) {
  Distinct names;
  for (const ArmRecord& arm : results.arms) {
    for (const NetworkLayer& layer : arm.network) {
      if (layer.name.find('+') != std::string::npos) names.add(layer.name);
    }
  }
  return names.texts();
}

// "3 to 5 calls a pass (cudnnConvolutionForward, ...)"
std::string calls_text(const Networks& networks, size_t arm,
                       const std::vector<std::string>& blocks) {
  size_t fewest = SIZE_MAX, most = 0;
  Distinct forward;
  for (const std::string& block : blocks) {
    for (const NetworkPass& pass : layer_of(networks, arm, block)->passes) {
      fewest = std::min(fewest, pass.calls->size());
      most = std::max(most, pass.calls->size());
      if (pass.pass != "forward") continue;
      for (const std::string& call : *pass.calls) forward.add(call);
    }
  }
  const std::string count =
      (fewest == most ? "" : std::to_string(fewest) + " to ") + std::to_string(most);
  return "by " + count + (most == 1 ? " call" : " calls") + " a pass, one after the other (" +
         join(forward.texts()) + " in forward)";
}

// "one layer after the other (conv1 names custom_naive, which the block has not)"
std::string unfused_text(const ArmRecord& arm, const std::vector<std::string>& blocks) {
  const std::set<std::string> told(blocks.begin(), blocks.end());
  Distinct reasons;
  for (const NetworkLayer& layer : arm.network) {
    const size_t colon = layer.unfused.find(": ");
    if (colon == std::string::npos) continue;
    if (told.count(layer.unfused.substr(0, colon))) reasons.add(layer.unfused.substr(colon + 2));
  }
  return std::string("one layer after the other") +
         (reasons.texts().empty() ? "" : " (" + join(reasons.texts(), "; ") + ")");
}

// "custom computes conv1+pool1+relu1 fused, by kernels of its own; cudnn by 3 calls ..."
void tell_blocks(const Results& results, std::vector<std::string>* lines) {
  // Blocks that the arms compute in the same ways are told together.
  const Networks networks = networks_of(results);
  std::vector<std::pair<std::vector<Way>, std::vector<std::string>>> groups;
  std::map<std::vector<Way>, size_t> places;  // of the groups
  for (const std::string& block : blocks_of(results)) {
    std::vector<Way> ways;
    for (size_t arm = 0; arm < networks.size(); ++arm) {
      ways.push_back(way_of(layer_of(networks, arm, block)));
    }
    const bool known = std::find(ways.begin(), ways.end(), Way::kUnknown) == ways.end();
    const bool differ = std::any_of(ways.begin(), ways.end(), [&](Way w) { return w != ways[0]; });
    if (!known || !differ) continue;
    const auto [place, is_new] = places.emplace(ways, groups.size());
    if (is_new) groups.push_back({ways, {}});
    groups[place->second].second.push_back(block);
  }
  for (const auto& [ways, blocks] : groups) {
    std::vector<std::string> parts;
    for (size_t arm = 0; arm < ways.size(); ++arm) {
      parts.push_back(results.arm_name(arm) + " " +
                      (ways[arm] == Way::kOwnKernels ? "fused, by kernels of its own"
                       : ways[arm] == Way::kCalls    ? calls_text(networks, arm, blocks)
                                                     : unfused_text(results.arms[arm], blocks)));
    }
    lines->push_back("not computed alike: " + both(blocks) + ": " + join(parts, "; "));
  }
}

// The interface that a function belongs to, or "".
std::string interface_of(const std::string& call) {
  for (const auto& [prefix, name] : {std::pair("cudnnBackend", "cuDNN's graph API"),
                                     {"cudnn", "cuDNN's legacy API"},
                                     {"cublasLt", "cuBLASLt"},
                                     {"cublas", "cuBLAS"}}) {
    if (call.starts_with(prefix)) return name;
  }
  return "";
}

void tell_interfaces(const Results& results, std::vector<std::string>* lines) {
  for (const ArmRecord& arm : results.arms) {
    Distinct found;
    for (const NetworkLayer& layer : arm.network) {
      for (const NetworkPass& pass : layer.passes) {
        for (const std::string& call : pass.calls.value_or(std::vector<std::string>())) {
          if (const std::string name = interface_of(call); !name.empty()) found.add(name);
        }
      }
    }
    const std::vector<std::string>& names = found.texts();
    if (names.empty()) continue;
    const bool legacy_only = found.has("cuDNN's legacy API") && !found.has("cuDNN's graph API");
    lines->push_back(arm.name + " calls " + both(names) +
                     (legacy_only ? ", and not cuDNN's graph API, which can fuse layers" : ""));
  }
}

// Which arms multiply float32 on tensor cores where another does not.
void tell_parts(const Results& results, std::vector<std::string>* lines) {
  for (const ArmRecord& arm : results.arms) {
    Distinct layers;
    for (const NetworkLayer& layer : arm.network) {
      for (const NetworkPass& pass : layer.passes) {
        if (multiplies_in_parts(pass.implementation)) layers.add(layer.name);
      }
    }
    if (layers.texts().empty()) continue;
    lines->push_back(
        arm.name + " multiplies " + both(layers.texts()) +
        " on tensor cores, each product as three of tf32 (3xTF32), at the error of fp32; "
        "'fp32_in_parts: false' forbids it");
  }
}

}  // namespace

std::vector<std::string> fairness_lines(const Results& results) {
  std::vector<std::string> lines;
  tell_blocks(results, &lines);
  tell_interfaces(results, &lines);
  tell_parts(results, &lines);
  return lines;
}

}  // namespace duet
