#include "net/fuse.h"

#include "layers/layers.h"

namespace duet {
namespace {

bool plain(const LayerSpec& spec, std::string_view type) {
  return spec.layer->type() == type && !spec.backend && !spec.layout;
}

// The keys of the convolution, and those of the pooling under "pool_".
ConfigNode block_keys(const LayerSpec& conv, const LayerSpec& pool) {
  ConfigNode keys = conv.keys;
  for (const char* own : {"name", "type"}) keys.erase(own);
  for (const auto& [key, value] : pool.keys.entries) {
    if (key != "name" && key != "type") keys.at_or_add("pool_" + key) = value;
  }
  return keys;
}

}  // namespace

std::optional<FusedBlock> fuse_at(const NetSpec& spec, size_t i) {
  const LayerType* type = find_layer_type("conv2d_pool_relu");
  if (!type || i + 2 >= spec.layers.size()) return {};
  const LayerSpec &conv = spec.layers[i], &second = spec.layers[i + 1], &third = spec.layers[i + 2];
  const bool pool_first = plain(second, "max_pool2d") && plain(third, "relu");
  const bool relu_first = plain(second, "relu") && plain(third, "max_pool2d");
  if (!plain(conv, "conv2d") || !(pool_first || relu_first)) return {};
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
  return block;
}

}  // namespace duet
