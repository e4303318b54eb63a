#include "net/fuse.h"

#include <algorithm>

#include "layers/layers.h"

namespace duet {
namespace {

bool is(const LayerSpec& spec, std::string_view type) { return spec.layer->type() == type; }

std::string hindrance_of(const Layer& block, const LayerSpec& conv, const LayerSpec& second,
                         const LayerSpec& third) {
  for (const LayerSpec* part : {&conv, &second, &third}) {
    if (part->layout) return part->name + " names a layout";
    if (part->backend && part != &conv) return part->name + " names an implementation of its own";
  }
  if (!conv.backend) return "";
  const std::string name = unknown_name(block, *conv.backend);
  return name.empty() ? "" : conv.name + " names " + name + ", which the block has not";
}

// The keys of the convolution, and those of the pooling under "pool_".
ConfigNode block_keys(const LayerSpec& conv, const LayerSpec& pool) {
  ConfigNode keys = conv.keys;
  const std::vector<std::string> of_any_layer = {"name", "type", "inputs", "backend", "layout"};
  for (const std::string& key : of_any_layer) keys.erase(key);
  for (const auto& [key, value] : pool.keys.entries) {
    const bool own = std::find(of_any_layer.begin(), of_any_layer.end(), key) == of_any_layer.end();
    if (own) keys.at_or_add("pool_" + key) = value;
  }
  return keys;
}

}  // namespace

const LayerType* block_type_of(std::string_view type) {
  return type == "conv2d" ? find_layer_type("conv2d_pool_relu") : nullptr;
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

std::optional<FusedBlock> fuse_at(const NetSpec& spec, size_t i) {
  const LayerType* type = block_type_of(spec.layers[i].layer->type());
  if (!type || i + 2 >= spec.layers.size()) return {};
  const LayerSpec &conv = spec.layers[i], &second = spec.layers[i + 1], &third = spec.layers[i + 2];
  const bool pool_first = is(second, "max_pool2d") && is(third, "relu");
  const bool relu_first = is(second, "relu") && is(third, "max_pool2d");
  if (!(pool_first || relu_first)) return {};
  for (size_t part = i; part < i + 2; ++part) {  // what stands between them nobody else reads
    const int number = static_cast<int>(part);
    const std::vector<int>& next = spec.layers[part + 1].inputs;
    if (next != std::vector{number} || spec.layers[part].readers > 1) return {};
  }
  FusedBlock block{.prefix = conv.name, .parts = 3};
  block.spec.name = conv.name + "+" + second.name + "+" + third.name;
  block.spec.keys = block_keys(conv, pool_first ? second : third);
  block.spec.inputs = conv.inputs;
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
