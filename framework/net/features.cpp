#include "net/features.h"

#include <algorithm>

#include "core/field.h"

namespace duet {
namespace {

bool is_network_name(const std::string& name) {
  const std::vector<std::string>& fields = field_names();
  return !name.empty() && name.find_first_of("./+ ") == std::string::npos &&
         std::find(fields.begin(), fields.end(), name) == fields.end();
}

}  // namespace

std::vector<FeaturesSpec> read_features(ConfigReader& reader) {
  ConfigNode* const networks = reader.raw("features");
  if (!networks) return {};
  std::vector<FeaturesSpec> all;
  if (networks->kind != ConfigNode::Kind::kMap) {
    reader.error("features",
                 "expected networks by their names, such as {vgg: {config: vgg.yaml, weights: "
                 "vgg.safetensors}}");
    return all;
  }
  for (auto& [name, network] : networks->entries) {
    if (!is_network_name(name)) {
      reader.errors().add(network.key_mark,
                          "features: a network's name may not be empty or that of a field, nor "
                          "hold '.', '/', '+' or blanks");
      continue;
    }
    if (network.kind != ConfigNode::Kind::kMap) {
      reader.errors().add(network.mark, "features: " + name +
                                            ": expected {config: FILE, weights: FILE}, or 'layers' "
                                            "in place of 'config'");
      continue;
    }
    ConfigReader keys(network, "features: " + name, reader.errors());
    for (const char* expanded : {"config", "layers"}) keys.raw(expanded);
    const std::string weights = keys.text("weights");
    all.push_back({name, weights, keys.mark("weights")});
    keys.finish();
  }
  return all;
}

void read_features_layer(ConfigReader& keys, const std::vector<FeaturesSpec>& networks,
                         LayerSpec* layer) {
  const std::string prefix = keys.text("features");
  const size_t dot = prefix.find('.');
  const std::string name = prefix.substr(0, dot);
  std::vector<std::string> known;
  for (const FeaturesSpec& network : networks) known.push_back(network.name);
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    keys.error("features", "there is no features network '" + name + "'" +
                               did_you_mean(name, known) +
                               "; there are: " + (known.empty() ? "none" : join(known)));
  } else if (dot == std::string::npos || dot + 1 == prefix.size()) {
    keys.error("features", "expected NETWORK.LAYER, such as " + name + ".conv1");
  }
  layer->features = name;
  layer->frozen = true;
  layer->parameter_prefix = prefix;
}

void check_features(const ConfigNode& root, const NetSpec& spec, ConfigErrors& errors) {
  for (const FeaturesSpec& network : spec.features) {
    const ConfigNode& node = *root.find("features")->find(network.name);
    const bool used =
        std::any_of(spec.layers.begin(), spec.layers.end(),
                    [&](const LayerSpec& layer) { return layer.features == network.name; });
    if (!used) {
      errors.add(node.key_mark, "features: " + network.name +
                                    ": no layer applies it; add {type: features, network: " +
                                    network.name + ", inputs: ...}, or delete it");
    }
    for (const char* key : {"config", "layers"}) {
      const ConfigNode* const written = node.find(key);
      if (!used || !written) continue;
      errors.add(written->mark, "features: " + network.name + ": " + key +
                                    ": the configuration has its layers already; delete this key");
    }
    for (const LayerSpec& layer : spec.layers) {
      if (!layer.features.empty() || !layer.name.starts_with(network.name + ".")) continue;
      errors.add(layer.mark, "layer " + layer.name + ": the features network '" + network.name +
                                 "' has the names that begin so; rename one of them");
    }
  }
}

}  // namespace duet
