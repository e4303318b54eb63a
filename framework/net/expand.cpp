#include "net/expand.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/field.h"
#include "layers/layers.h"
#include "net/yaml.h"

namespace duet {
namespace {

constexpr int64_t kMostCopies = 1000;
constexpr size_t kMostLayers = 10000;
constexpr size_t kMostBytes = 64 << 20;  // of all that they say

std::string text_of(const ConfigNode& item, std::string_view key) {
  const ConfigNode* node = item.find(key);
  return node && node->kind == ConfigNode::Kind::kScalar ? node->scalar : "";
}

bool is_composite(const ConfigNode& item) {
  const std::string name = text_of(item, "type");
  const auto& types = composite_types();
  return std::any_of(types.begin(), types.end(),
                     [&](const CompositeType& type) { return type.name == name; });
}

bool has_composites(const ConfigNode& layers) {
  return std::any_of(layers.items.begin(), layers.items.end(), [](const ConfigNode& item) {
    return item.find("repeat") || is_composite(item);
  });
}

ConfigNode word(const std::string& text, Mark mark) {
  ConfigNode node = ConfigNode::of(text);
  node.mark = node.key_mark = mark;
  return node;
}

ConfigNode words(const std::vector<std::string>& texts, Mark mark) {
  ConfigNode list{.kind = ConfigNode::Kind::kList, .mark = mark, .key_mark = mark};
  for (const std::string& text : texts) list.items.push_back(word(text, mark));
  return list;
}

void put(ConfigNode& item, const std::string& key, ConfigNode value) {
  item.at_or_add(key) = std::move(value);
}

std::vector<std::string> inputs_of(const ConfigNode& item) {
  const ConfigNode* node = item.find("inputs");
  if (!node) return {};
  std::vector<std::string> names;
  if (node->kind == ConfigNode::Kind::kScalar) names.push_back(node->scalar);
  for (const ConfigNode& each : node->items) names.push_back(each.scalar);
  return names;
}

// A loss or a metric; what is wrong with it is told by who reads the layers.
bool is_end(ConfigNode item) {
  const LayerType* const type = find_layer_type(text_of(item, "type"));
  ConfigErrors ignored("");
  ConfigReader reader(item, "", ignored);
  return type && type->make(reader)->is_end();
}

void set_marks(ConfigNode& node, Mark mark) {
  node.mark = node.key_mark = mark;
  for (ConfigNode& item : node.items) set_marks(item, mark);
  for (auto& [key, value] : node.entries) set_marks(value, mark);
}

size_t bytes_of(const ConfigNode& node) {
  size_t bytes = sizeof node + node.scalar.size();
  for (const ConfigNode& item : node.items) bytes += bytes_of(item);
  for (const auto& [key, value] : node.entries) bytes += key.size() + bytes_of(value);
  return bytes;
}

class Expander {
 public:
  /// `features`: the key of the configuration; null: none.
  Expander(const ConfigNode* features, ConfigErrors& errors)
      : features_(features), errors_(errors) {}

  std::vector<ConfigNode> run(const ConfigNode& layers) {
    Scope all;
    add_all(layers, all, last_);
    return std::move(result_);
  }

 private:
  // The layers that one composite holds, or the network.
  struct Scope {
    const Scope* around = nullptr;
    std::string prefix = {};                          // "layer1.0."
    std::map<std::string, std::string> outputs = {};  // by the name as it is written: who makes it
    std::map<std::string, int> counts = {};           // by type
    std::optional<ConfigNode> frozen = {};            // of its layers
  };

  // A features network: ordinary layers, each with its name and `inputs`.
  struct Network {
    std::vector<ConfigNode> layers;
    std::map<std::string, std::string> outputs;  // Scope::outputs
    std::string last;
  };

  // Adds the layers of `list`, the first of which reads `before`; returns who makes the last value.
  std::string add_all(const ConfigNode& list, Scope& scope, std::string before) {
    for (const ConfigNode& item : list.items) before = add_repeated(item, scope, before);
    return before;
  }

  std::string add_repeated(ConfigNode item, Scope& scope, std::string before) {
    if (item.kind != ConfigNode::Kind::kMap) {
      if (is_small(item.mark)) push(std::move(item));  // told by who reads the layers
      return before;
    }
    const std::string type = text_of(item, "type");
    std::string name = text_of(item, "name");
    const int number = ++scope.counts[type];
    if (name.empty()) name = type + std::to_string(number);
    if (!item.find("repeat")) return add(std::move(item), name, scope, before);
    const Mark mark = item.find("repeat")->mark;
    ConfigReader reader(item, "layer " + scope.prefix + name, errors_);
    const int64_t copies = reader.integer("repeat", {}, 1, kMostCopies);
    item.erase("repeat");
    int64_t first = 0;
    const auto copy_name = [&](int64_t i) { return name + "." + std::to_string(i); };
    while (scope.outputs.contains(copy_name(first))) ++first;
    const size_t mistakes = errors_.count();
    for (int64_t i = first; i < first + copies && is_small(mark); ++i) {
      before = add(item, copy_name(i), scope, before);
      if (errors_.count() > mistakes) break;  // the next would have the same
      item.erase("inputs");                   // the next reads this one
    }
    scope.outputs[name] = before;
    return before;
  }

  std::string add(ConfigNode item, const std::string& name, Scope& scope,
                  const std::string& before) {
    const std::string full = scope.prefix + name;
    const std::string output =
        text_of(item, "type") == "features" ? add_features(item, full, scope, before)
        : is_composite(item)                ? add_composite(item, full, scope, before)
                                            : add_layer(std::move(item), full, scope, before);
    scope.outputs[name] = output;
    return output;
  }

  std::string add_layer(ConfigNode item, const std::string& full, const Scope& scope,
                        const std::string& before) {
    if (!is_small(item.mark)) return full;
    item.erase("name");
    item.entries.emplace_front("name", word(full, item.mark));
    if (ConfigNode* inputs = item.find("inputs")) {
      if (inputs->kind == ConfigNode::Kind::kScalar) inputs->scalar = found(inputs->scalar, scope);
      for (ConfigNode& input : inputs->items) input.scalar = found(input.scalar, scope);
    } else if (before != last_) {
      put(item, "inputs", words({before}, item.mark));
    }
    if (scope.frozen && !item.find("frozen")) put(item, "frozen", *scope.frozen);
    push(std::move(item));
    return last_ = full;
  }

  std::string add_composite(ConfigNode& item, const std::string& full, const Scope& scope,
                            std::string before) {
    const bool residual = text_of(item, "type") == "residual";
    ConfigReader reader(item, "layer " + full + " (" + text_of(item, "type") + ")", errors_);
    for (const char* key : {"name", "type"}) reader.raw(key);
    if (!read_input(reader, scope, &before)) return full;
    const ConfigNode* frozen = reader.raw("frozen");
    const ConfigNode* body = layers_of(reader, residual ? "body" : "layers", true);
    const ConfigNode* shortcut = residual ? layers_of(reader, "shortcut", false) : nullptr;
    ConfigNode* activation = residual ? reader.raw("activation") : nullptr;
    reader.finish();
    if (!body) return full;
    Scope inside{.around = &scope, .prefix = full + ".", .frozen = scope.frozen};
    if (frozen) inside.frozen = *frozen;
    const std::string made = add_all(*body, inside, before);
    if (!residual) return made;
    const std::string other = shortcut ? add_all(*shortcut, inside, before) : before;
    ConfigNode sum = ConfigNode::map();
    sum.mark = item.mark;
    put(sum, "type", word("add", item.mark));
    put(sum, "inputs", words({made, other}, item.mark));
    // Its inputs are full names: nothing is found by them in a scope.
    const std::string joined = add_layer(std::move(sum), inside.prefix + "add", {}, "");
    if (!activation) return joined;
    if (activation->kind != ConfigNode::Kind::kScalar) {
      return add_repeated(*activation, inside, joined);
    }
    ConfigNode layer = ConfigNode::map();
    layer.mark = activation->mark;
    put(layer, "type", *activation);
    return add_repeated(std::move(layer), inside, joined);
  }

  // Sets `before` to the layer that a composite names in `inputs`. Returns false if that is wrong.
  bool read_input(ConfigReader& reader, const Scope& scope, std::string* before) {
    const ConfigNode* inputs = reader.raw("inputs");
    if (!inputs) return true;
    const ConfigNode& input = inputs->items.size() == 1 ? inputs->items[0] : *inputs;
    if (input.kind != ConfigNode::Kind::kScalar) {
      reader.error("inputs", "expected the name of one layer");
      return false;
    }
    *before = found(input.scalar, scope);
    return true;
  }

  std::string add_features(ConfigNode& item, const std::string& full, const Scope& scope,
                           std::string before) {
    ConfigReader reader(item, "layer " + full + " (features)", errors_);
    for (const char* key : {"name", "type"}) reader.raw(key);
    if (!read_input(reader, scope, &before)) return full;
    const std::string name = reader.text("network");
    const bool whole = !reader.raw("until");
    std::string until = whole ? "" : reader.text("until");
    reader.finish();
    const Network* const network = name.empty() ? nullptr : find_network(name, reader);
    if (!network) return full;
    if (!whole) {
      const auto output = network->outputs.find(until);
      if (output == network->outputs.end()) {
        std::vector<std::string> known;
        for (const auto& [each, by] : network->outputs) known.push_back(each);
        reader.error("until", "the features network '" + name + "' has no layer '" + until + "'" +
                                  did_you_mean(until, known) + "; there are: " + join(known));
        return full;
      }
      until = output->second;
    }
    return add_layers_of(*network, name, whole ? network->last : until, item.mark, full, before);
  }

  // The layers of the network that lead to its layer `until`, and that itself.
  std::string add_layers_of(const Network& network, const std::string& name,
                            const std::string& until, Mark mark, const std::string& full,
                            const std::string& before) {
    const auto name_here = [&](const std::string& layer) {
      return layer == kImagesField ? before : full + "." + layer;
    };
    std::set<std::string> wanted = {until};
    for (auto layer = network.layers.rbegin(); layer != network.layers.rend(); ++layer) {
      if (!wanted.contains(text_of(*layer, "name"))) continue;
      for (const std::string& input : inputs_of(*layer)) wanted.insert(input);
    }
    for (ConfigNode layer : network.layers) {
      const std::string own = text_of(layer, "name");
      if (!wanted.contains(own)) continue;
      if (!is_small(mark)) return full;
      std::vector<std::string> inputs;
      for (const std::string& input : inputs_of(layer)) inputs.push_back(name_here(input));
      for (const char* key : {"name", "frozen"}) layer.erase(key);
      put(layer, "inputs", words(inputs, mark));
      put(layer, "features", word(name + "." + own, mark));
      layer.entries.emplace_front("name", word(full + "." + own, mark));
      set_marks(layer, mark);  // it may stand in another file
      push(std::move(layer));
    }
    return last_ = name_here(until);
  }

  // nullptr if there is none, or it is wrong.
  const Network* find_network(const std::string& name, ConfigReader& reader) {
    const ConfigNode* const node = features_ ? features_->find(name) : nullptr;
    if (!node) {
      std::vector<std::string> known;
      if (features_) {
        for (const auto& [each, network] : features_->entries) known.push_back(each);
      }
      reader.error("network",
                   "there is no features network '" + name + "'" + did_you_mean(name, known) +
                       "; under 'features' there are: " + (known.empty() ? "none" : join(known)));
      return nullptr;
    }
    const auto [place, is_new] = networks_.try_emplace(name);
    if (is_new) place->second = read_network(name, *node);
    return place->second ? &*place->second : nullptr;
  }

  std::optional<Network> read_network(const std::string& name, const ConfigNode& node) {
    const std::string path = "features: " + name;
    const ConfigNode *const file = node.find("config"), *const list = node.find("layers");
    if (!file == !list) {
      errors_.add(node.mark,
                  path + ": expected either 'config', a YAML file with layers, or 'layers'");
      return {};
    }
    if (list) return read_network(*list, path, errors_);
    if (file->kind != ConfigNode::Kind::kScalar) {
      errors_.add(file->mark, path + ": config: expected the name of a YAML file");
      return {};
    }
    try {
      const ConfigNode root = read_yaml_file(file->scalar);
      ConfigErrors of_file(file->scalar);
      const ConfigNode* const layers = root.find("layers");
      const ConfigNode none = {.mark = root.mark};
      std::optional<Network> network = read_network(layers ? *layers : none, path, of_file);
      of_file.raise_if_any();
      return network;
    } catch (const Error& error) {
      errors_.add(file->mark, path + ": config: " + error.what());
      return {};
    }
  }

  static std::optional<Network> read_network(const ConfigNode& list, const std::string& path,
                                             ConfigErrors& errors) {
    const size_t mistakes = errors.count();
    const bool all_layers =
        list.kind == ConfigNode::Kind::kList && !list.items.empty() &&
        std::all_of(list.items.begin(), list.items.end(),
                    [](const ConfigNode& item) { return item.kind == ConfigNode::Kind::kMap; });
    if (!all_layers) {
      errors.add(list.mark, path + ": expected 'layers', a list of layers");
      return {};
    }
    Expander expander(nullptr, errors);
    Scope scope;
    expander.add_all(list, scope, expander.last_);
    Network network{.outputs = scope.outputs, .last = std::string(kImagesField)};
    for (ConfigNode& layer : expander.result_) {
      if (is_end(layer)) {
        network.outputs.erase(text_of(layer, "name"));
        continue;
      }
      if (!layer.find("inputs")) put(layer, "inputs", words({network.last}, layer.mark));
      network.last = text_of(layer, "name");
      network.layers.push_back(std::move(layer));
    }
    if (errors.count() > mistakes) return {};
    if (network.layers.empty()) {
      errors.add(list.mark, path + ": has no layers but losses");
      return {};
    }
    return network;
  }

  // The list under `key`, or nullptr where there is none or it is no list of layers.
  const ConfigNode* layers_of(ConfigReader& reader, const std::string& key, bool required) {
    const ConfigNode* list = reader.raw(key);
    if (list && list->kind == ConfigNode::Kind::kList && (!required || !list->items.empty())) {
      return list;
    }
    if (list || required) {
      reader.error(key, "expected '" + key + "', a list of layers, such as [{type: conv2d, ...}, " +
                            "{type: relu}]");
    }
    return nullptr;
  }

  // The full name of the layer that `name` means here; of what is not known, the name itself.
  static std::string found(const std::string& name, const Scope& scope) {
    for (const Scope* each = &scope; each; each = each->around) {
      const auto output = each->outputs.find(name);
      if (output != each->outputs.end()) return output->second;
    }
    return name;
  }

  void push(ConfigNode item) {
    bytes_ += bytes_of(item);
    result_.push_back(std::move(item));
  }

  bool is_small(Mark mark) {
    if (result_.size() < kMostLayers && bytes_ < kMostBytes) return true;
    if (!told_) {
      errors_.add(mark, "configuration: repeats make more than " + std::to_string(kMostLayers) +
                            " layers, or more text than " + std::to_string(kMostBytes >> 20) +
                            " MiB; repeat less often");
    }
    told_ = true;
    return false;
  }

  const ConfigNode* features_;
  ConfigErrors& errors_;
  std::map<std::string, std::optional<Network>> networks_;  // that were asked for
  std::vector<ConfigNode> result_;
  size_t bytes_ = 0;
  std::string last_ = "images";  // the layer added last
  bool told_ = false;
};

}  // namespace

const std::vector<CompositeType>& composite_types() {
  static const std::vector<CompositeType> types = {
      {"residual", "composite: the sum of what its body and its shortcut make of one value"},
      {"sequential", "composite: layers one behind the other, under one name"},
      {"features", "composite: a frozen network of the key 'features', on a layer or a field"}};
  return types;
}

bool expand_composites(ConfigNode& root, ConfigErrors& errors) {
  ConfigNode* layers = root.find("layers");
  if (!layers || layers->kind != ConfigNode::Kind::kList || !has_composites(*layers)) return true;
  const size_t before = errors.count();
  ConfigNode* features = root.find("features");
  layers->items = Expander(features, errors).run(*layers);
  if (errors.count() != before) return false;
  if (!features) return true;
  for (auto& [name, network] : features->entries) {
    for (const char* key : {"config", "layers"}) network.erase(key);
  }
  return true;
}

}  // namespace duet
