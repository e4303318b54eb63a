#include "compare/fairness.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "compare/distinct.h"
#include "compare/fields.h"
#include "core/config.h"
#include "measure/environment.h"

namespace duet {

using nlohmann::json;

namespace {

std::string both(const std::vector<std::string>& texts) {
  if (texts.size() < 2) return join(texts);
  return join({texts.begin(), texts.end() - 1}) + " and " + texts.back();
}

const json& network_of(const json& results, size_t arm) {
  return list(member(element(member(results, "arms"), arm), "network"));
}

// The layers of every arm's network by name; of two of one name the first.
using Networks = std::vector<std::map<std::string, const json*>>;

Networks networks_of(const json& results) {
  Networks networks(arm_count(results));
  for (size_t arm = 0; arm < networks.size(); ++arm) {
    for (const json& layer : network_of(results, arm)) {
      networks[arm].emplace(text_at(layer, "name"), &layer);
    }
  }
  return networks;
}

const json& layer_of(const Networks& networks, size_t arm, const std::string& name) {
  static const json none;
  const auto found = networks[arm].find(name);
  return found == networks[arm].end() ? none : *found->second;
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
  Distinct names;
  for (size_t arm = 0; arm < arm_count(results); ++arm) {
    for (const json& layer : network_of(results, arm)) {
      const std::string name = text_at(layer, "name");
      if (name.find('+') != std::string::npos) names.add(name);
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
    for (const json& pass : list(member(layer_of(networks, arm, block), "passes"))) {
      const json& calls = list(member(pass, "calls"));
      fewest = std::min(fewest, calls.size());
      most = std::max(most, calls.size());
      if (text_at(pass, "pass") != "forward") continue;
      for (const json& call : calls) {
        if (call.is_string()) forward.add(call.get<std::string>());
      }
    }
  }
  const std::string count =
      (fewest == most ? "" : std::to_string(fewest) + " to ") + std::to_string(most);
  return "by " + count + (most == 1 ? " call" : " calls") + " a pass, one after the other (" +
         join(forward.texts()) + " in forward)";
}

// "one layer after the other (conv1 names custom_naive, which the block has not)"
std::string unfused_text(const json& results, size_t arm, const std::vector<std::string>& blocks) {
  const std::set<std::string> told(blocks.begin(), blocks.end());
  Distinct reasons;
  for (const json& layer : network_of(results, arm)) {
    const std::string unfused = text_at(layer, "unfused");
    const size_t colon = unfused.find(": ");
    if (colon == std::string::npos) continue;
    const std::string block = unfused.substr(0, colon);
    if (told.count(block)) reasons.add(unfused.substr(colon + 2));
  }
  return std::string("one layer after the other") +
         (reasons.texts().empty() ? "" : " (" + join(reasons.texts(), "; ") + ")");
}

// "custom computes conv1+pool1+relu1 fused, by kernels of its own; cudnn by 3 calls ..."
void tell_blocks(const json& results, std::vector<std::string>* lines) {
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
      parts.push_back(arm_name(results, arm) + " " +
                      (ways[arm] == Way::kOwnKernels ? "fused, by kernels of its own"
                       : ways[arm] == Way::kCalls    ? calls_text(networks, arm, blocks)
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
    Distinct found;
    for (const json& layer : network_of(results, arm)) {
      for (const json& pass : list(member(layer, "passes"))) {
        for (const json& call : list(member(pass, "calls"))) {
          const std::string name =
              call.is_string() ? interface_of(call.get<std::string>()) : std::string();
          if (!name.empty()) found.add(name);
        }
      }
    }
    const std::vector<std::string>& names = found.texts();
    if (names.empty()) continue;
    const bool legacy_only = found.has("cuDNN's legacy API") && !found.has("cuDNN's graph API");
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
