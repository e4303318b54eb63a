#include "net/fuse.h"

#include <algorithm>

#include "layers/layers.h"

namespace duet {
namespace {

using Sequence = std::vector<BlockPart>;

// A block and the sequence of its parts.
struct Match {
  const LayerType* block;
  const Sequence* parts;
};

// Whether the layers from `first` are `parts`, each the only reader of the one before it.
bool stands_at(const NetSpec& spec, size_t first, const Sequence& parts) {
  if (first + parts.size() > spec.layers.size()) return false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const LayerSpec& layer = spec.layers[first + i];
    if (layer.layer->type() != parts[i].type) return false;
    if (layer.features != spec.layers[first].features) return false;
    if (i + 1 == parts.size()) break;
    const std::vector only = {LayerInput{static_cast<int>(first + i)}};
    if (layer.readers > 1 || spec.layers[first + i + 1].inputs != only) return false;
  }
  return true;
}

// Those that stand there, the longest first.
std::vector<Match> matches_at(const NetSpec& spec, size_t first) {
  std::vector<Match> matches;
  for (const LayerType* type : layer_types()) {
    for (const Sequence& parts : type->replaces) {
      if (stands_at(spec, first, parts)) matches.push_back({type, &parts});
    }
  }
  std::stable_sort(matches.begin(), matches.end(), [](const Match& a, const Match& b) {
    return a.parts->size() > b.parts->size();
  });
  return matches;
}

std::string hindrance_of(const Layer& block, const NetSpec& spec, size_t first, size_t parts) {
  const LayerSpec& head = spec.layers[first];
  for (size_t i = first; i < first + parts; ++i) {
    const LayerSpec& part = spec.layers[i];
    if (part.layout) return part.name + " names a layout";
    if (part.backend && i != first) return part.name + " names an implementation of its own";
  }
  if (!head.backend) return "";
  const std::string name = unknown_name(block, *head.backend);
  return name.empty() ? "" : head.name + " names " + name + ", which the block has not";
}

// The keys of the parts, with their prefixes.
ConfigNode block_keys(const NetSpec& spec, size_t first, const Sequence& parts) {
  const std::vector<std::string_view> of_any_layer = {"name",   "type",   "inputs",  "backend",
                                                      "layout", "frozen", "features"};
  ConfigNode keys = ConfigNode::map();
  for (size_t i = 0; i < parts.size(); ++i) {
    for (const auto& [key, value] : spec.layers[first + i].keys.entries) {
      if (std::find(of_any_layer.begin(), of_any_layer.end(), key) != of_any_layer.end()) continue;
      keys.at_or_add(std::string(parts[i].prefix) + key) = value;
    }
  }
  return keys;
}

std::optional<FusedBlock> block_of(const Match& match, const NetSpec& spec, size_t i) {
  const LayerSpec& head = spec.layers[i];
  FusedBlock block{.parts = match.parts->size()};
  block.spec.name = head.name;
  block.spec.parameter_prefix = head.parameter_prefix;
  block.spec.features = head.features;
  for (size_t part = 1; part < block.parts; ++part) {
    block.spec.name += "+" + spec.layers[i + part].name;
  }
  block.spec.keys = block_keys(spec, i, *match.parts);
  block.spec.inputs = head.inputs;
  block.spec.frozen = head.frozen;  // the others have no weights
  block.spec.stream = head.stream;
  block.spec.mark = head.mark;
  ConfigErrors none("");  // the keys were checked with the parts
  ConfigReader reader(block.spec.keys, block.spec.name, none);
  block.spec.layer = match.block->make(reader);
  reader.finish();
  if (!none.empty()) return {};
  block.spec.backend = head.backend;
  block.hindrance = hindrance_of(*block.spec.layer, spec, i, block.parts);
  return block;
}

}  // namespace

std::vector<const LayerType*> block_types_of(std::string_view type) {
  std::vector<const LayerType*> blocks;
  for (const LayerType* block : layer_types()) {
    const auto starts = [&](const Sequence& parts) { return parts.front().type == type; };
    if (std::any_of(block->replaces.begin(), block->replaces.end(), starts))
      blocks.push_back(block);
  }
  return blocks;
}

std::string unknown_name(const Layer& layer, const BackendChoice& backend) {
  const auto list = layer.implementations();
  const auto is_known = [&](const std::string& name) {
    return name.empty() || name == kAuto || family_from(name) ||
           std::any_of(list.begin(), list.end(), [&](const auto& info) { return info.id == name; });
  };
  if (!is_known(backend.name)) return backend.name;
  for (const auto& [pass, name] : backend.passes) {
    if (!is_known(name)) return name;
  }
  return "";
}

std::vector<FusedBlock> blocks_at(const NetSpec& spec, size_t i) {
  std::vector<FusedBlock> blocks;
  for (const Match& match : matches_at(spec, i)) {
    if (auto block = block_of(match, spec, i)) blocks.push_back(std::move(*block));
  }
  return blocks;
}

}  // namespace duet
