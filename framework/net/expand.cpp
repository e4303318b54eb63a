#include "net/expand.h"

#include <algorithm>
#include <map>
#include <set>

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

size_t bytes_of(const ConfigNode& node) {
  size_t bytes = sizeof node + node.scalar.size();
  for (const ConfigNode& item : node.items) bytes += bytes_of(item);
  for (const auto& [key, value] : node.entries) bytes += key.size() + bytes_of(value);
  return bytes;
}

class Expander {
 public:
  explicit Expander(ConfigErrors& errors) : errors_(errors) {}

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
    const std::string output = is_composite(item) ? add_composite(item, full, scope, before)
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
    push(std::move(item));
    return last_ = full;
  }

  std::string add_composite(ConfigNode& item, const std::string& full, const Scope& scope,
                            std::string before) {
    const bool residual = text_of(item, "type") == "residual";
    ConfigReader reader(item, "layer " + full + " (" + text_of(item, "type") + ")", errors_);
    for (const char* key : {"name", "type"}) reader.raw(key);
    if (const ConfigNode* inputs = reader.raw("inputs")) {
      const ConfigNode& input = inputs->items.size() == 1 ? inputs->items[0] : *inputs;
      if (input.kind != ConfigNode::Kind::kScalar) {
        reader.error("inputs", "expected the name of one layer");
        return full;
      }
      before = found(input.scalar, scope);
    }
    const ConfigNode* body = layers_of(reader, residual ? "body" : "layers", true);
    const ConfigNode* shortcut = residual ? layers_of(reader, "shortcut", false) : nullptr;
    ConfigNode* activation = residual ? reader.raw("activation") : nullptr;
    reader.finish();
    if (!body) return full;
    Scope inside{.around = &scope, .prefix = full + "."};
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

  ConfigErrors& errors_;
  std::vector<ConfigNode> result_;
  size_t bytes_ = 0;
  std::string last_ = "images";  // the layer added last
  bool told_ = false;
};

}  // namespace

const std::vector<CompositeType>& composite_types() {
  static const std::vector<CompositeType> types = {
      {"residual", "composite: the sum of what its body and its shortcut make of one value"},
      {"sequential", "composite: layers one behind the other, under one name"}};
  return types;
}

bool expand_composites(ConfigNode& root, ConfigErrors& errors) {
  ConfigNode* layers = root.find("layers");
  if (!layers || layers->kind != ConfigNode::Kind::kList || !has_composites(*layers)) return true;
  const size_t before = errors.count();
  layers->items = Expander(errors).run(*layers);
  return errors.count() == before;
}

}  // namespace duet
