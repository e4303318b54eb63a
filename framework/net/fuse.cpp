#include "net/fuse.h"

#include <algorithm>

#include "layers/layers.h"

namespace duet {
namespace {

bool is(const LayerSpec& spec, std::string_view type) { return spec.layer->type() == type; }

// Whether `name` is a family, kAuto or an id of the block.
bool known_to(const Layer& block, const std::string& name) {
  const auto list = block.implementations();
  return name.empty() || name == kAuto || family_from(name) ||
         std::any_of(list.begin(), list.end(), [&](const auto& info) { return info.id == name; });
}

std::string hindrance_of(const Layer& block, const LayerSpec& conv, const LayerSpec& second,
                         const LayerSpec& third) {
  for (const LayerSpec* part : {&conv, &second, &third}) {
    if (part->layout) return part->name + " names a layout";
    if (part->backend && part != &conv) return part->name + " names an implementation of its own";
  }
  if (!conv.backend) return "";
  std::vector<std::string> names = {conv.backend->name};
  for (const auto& [pass, name] : conv.backend->passes) names.push_back(name);
  for (const std::string& name : names) {
    if (!known_to(block, name)) return conv.name + " names " + name + ", which the block has not";
  }
  return "";
}

// The keys of the convolution, and those of the pooling under "pool_".
ConfigNode block_keys(const LayerSpec& conv, const LayerSpec& pool) {
  ConfigNode keys = conv.keys;
  const std::vector<std::string> of_any_layer = {"name", "type", "backend", "layout"};
  for (const std::string& key : of_any_layer) keys.erase(key);
  for (const auto& [key, value] : pool.keys.entries) {
    const bool own = std::find(of_any_layer.begin(), of_any_layer.end(), key) == of_any_layer.end();
    if (own) keys.at_or_add("pool_" + key) = value;
  }
  return keys;
}

}  // namespace

std::optional<FusedBlock> fuse_at(const NetSpec& spec, size_t i) {
  const LayerType* type = find_layer_type("conv2d_pool_relu");
  if (!type || i + 2 >= spec.layers.size()) return {};
  const LayerSpec &conv = spec.layers[i], &second = spec.layers[i + 1], &third = spec.layers[i + 2];
  const bool pool_first = is(second, "max_pool2d") && is(third, "relu");
  const bool relu_first = is(second, "relu") && is(third, "max_pool2d");
  if (!is(conv, "conv2d") || !(pool_first || relu_first)) return {};
  FusedBlock block{.prefix = conv.name, .parts = 3};
  block.spec.name = conv.name + "+" + second.name + "+" + third.name;
  block.spec.keys = block_keys(conv, pool_first ? second : third);
  block.spec.stream = conv.stream;
  block.spec.mark = conv.mark;
  ConfigErrors none("");  // the keys were checked with the parts
  ConfigReader reader(block.spec.keys, block.spec.name, none);
  block.spec.layer = type->make(reader);
  reader.finish();
  if (!none.empty()) return {};
  block.spec.backend = conv.backend;
  block.hindrance = hindrance_of(*block.spec.layer, conv, second, third);
  return block;
}

}  // namespace duet
