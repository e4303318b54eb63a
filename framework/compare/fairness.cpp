#include "compare/fairness.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "compare/fields.h"
#include "core/config.h"
#include "measure/environment.h"

namespace duet {

using nlohmann::json;

namespace {

void add_once(std::vector<std::string>* texts, const std::string& text) {
  if (std::find(texts->begin(), texts->end(), text) == texts->end()) texts->push_back(text);
}

std::string both(const std::vector<std::string>& texts) {
  if (texts.size() < 2) return join(texts);
  return join({texts.begin(), texts.end() - 1}) + " and " + texts.back();
}

const json& network_of(const json& results, size_t arm) {
  return list(member(element(member(results, "arms"), arm), "network"));
}

const json& layer_of(const json& results, size_t arm, const std::string& name) {
  static const json none;
  for (const json& layer : network_of(results, arm)) {
    if (text_at(layer, "name") == name) return layer;
  }
  return none;
}

// How an arm computes a block. Results of before calls were noted say nothing.
enum class Way { kUnknown, kOwnKernels, kCalls, kLayerByLayer };

Way way_of(const json& layer) {
  if (layer.is_null()) return Way::kLayerByLayer;
  bool calls = false;
  for (const json& pass : list(member(layer, "passes"))) {
    if (!member(pass, "calls").is_array()) return Way::kUnknown;
    calls = calls || !member(pass, "calls").empty();
  }
  return calls ? Way::kCalls : Way::kOwnKernels;
}

std::vector<std::string> blocks_of(const json& results) {
  std::vector<std::string> names;
  for (size_t arm = 0; arm < arm_count(results); ++arm) {
    for (const json& layer : network_of(results, arm)) {
      const std::string name = text_at(layer, "name");
      if (name.find('+') != std::string::npos) add_once(&names, name);
    }
  }
  return names;
}

// "3 to 5 calls a pass (cudnnConvolutionForward, ...)"
std::string calls_text(const json& results, size_t arm, const std::vector<std::string>& blocks) {
  size_t fewest = SIZE_MAX, most = 0;
  std::vector<std::string> forward;
  for (const std::string& block : blocks) {
    for (const json& pass : list(member(layer_of(results, arm, block), "passes"))) {
      const json& calls = list(member(pass, "calls"));
      fewest = std::min(fewest, calls.size());
      most = std::max(most, calls.size());
      if (text_at(pass, "pass") != "forward") continue;
      for (const json& call : calls) {
        if (call.is_string()) add_once(&forward, call.get<std::string>());
      }
    }
  }
  const std::string count =
      (fewest == most ? "" : std::to_string(fewest) + " to ") + std::to_string(most);
  return "by " + count + (most == 1 ? " call" : " calls") + " a pass, one after the other (" +
         join(forward) + " in forward)";
}

// "one layer after the other (conv1 names custom_naive, which the block has not)"
std::string unfused_text(const json& results, size_t arm, const std::vector<std::string>& blocks) {
  std::vector<std::string> reasons;
  for (const json& layer : network_of(results, arm)) {
    const std::string unfused = text_at(layer, "unfused");
    const size_t colon = unfused.find(": ");
    if (colon == std::string::npos) continue;
    const std::string block = unfused.substr(0, colon);
    if (std::find(blocks.begin(), blocks.end(), block) == blocks.end()) continue;
    add_once(&reasons, unfused.substr(colon + 2));
  }
  return std::string("one layer after the other") +
         (reasons.empty() ? "" : " (" + join(reasons, "; ") + ")");
}

// "custom computes conv1+pool1+relu1 fused, by kernels of its own; cudnn by 3 calls ..."
void tell_blocks(const json& results, std::vector<std::string>* lines) {
  // Blocks that the arms compute in the same ways are told together.
  std::vector<std::pair<std::vector<Way>, std::vector<std::string>>> groups;
  for (const std::string& block : blocks_of(results)) {
    std::vector<Way> ways;
    for (size_t arm = 0; arm < arm_count(results); ++arm) {
      ways.push_back(way_of(layer_of(results, arm, block)));
    }
    const bool known = std::find(ways.begin(), ways.end(), Way::kUnknown) == ways.end();
    const bool differ = std::any_of(ways.begin(), ways.end(), [&](Way w) { return w != ways[0]; });
    if (!known || !differ) continue;
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const auto& group) { return group.first == ways; });
    if (same == groups.end()) {
      groups.push_back({ways, {block}});
    } else {
      same->second.push_back(block);
    }
  }
  for (const auto& [ways, blocks] : groups) {
    std::vector<std::string> parts;
    for (size_t arm = 0; arm < ways.size(); ++arm) {
      parts.push_back(arm_name(results, arm) + " " +
                      (ways[arm] == Way::kOwnKernels ? "fused, by kernels of its own"
                       : ways[arm] == Way::kCalls    ? calls_text(results, arm, blocks)
                                                     : unfused_text(results, arm, blocks)));
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

void tell_interfaces(const json& results, std::vector<std::string>* lines) {
  for (size_t arm = 0; arm < arm_count(results); ++arm) {
    std::vector<std::string> names;
    for (const json& layer : network_of(results, arm)) {
      for (const json& pass : list(member(layer, "passes"))) {
        for (const json& call : list(member(pass, "calls"))) {
          const std::string name =
              call.is_string() ? interface_of(call.get<std::string>()) : std::string();
          if (!name.empty()) add_once(&names, name);
        }
      }
    }
    if (names.empty()) continue;
    const auto has = [&](const char* name) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    const bool legacy_only = has("cuDNN's legacy API") && !has("cuDNN's graph API");
    lines->push_back(arm_name(results, arm) + " calls " + both(names) +
                     (legacy_only ? ", and not cuDNN's graph API, which can fuse layers" : ""));
  }
}

}  // namespace

std::vector<std::string> version_lines(const json& results) {
  std::vector<std::pair<std::string, std::string>> versions;
  for (const json& version : list(member(member(results, "environment"), "versions"))) {
    const json &name = element(version, 0), &text = element(version, 1);
    if (name.is_string() && text.is_string()) {
      versions.emplace_back(name.get<std::string>(), text.get<std::string>());
    }
  }
  return version_warnings(versions);
}

std::vector<std::string> fairness_lines(const json& results) {
  std::vector<std::string> lines;
  tell_blocks(results, &lines);
  tell_interfaces(results, &lines);
  return lines;
}

}  // namespace duet
