#include "train/config_changes.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "core/error.h"
#include "core/number_text.h"
#include "train/setup.h"

namespace duet {
namespace {

constexpr const char* kNone = "(none)";
constexpr const char* kSources = "sources.";  // hashes of a user's kernels

// A key of a layer, or, without one, of the configuration: "data.batch".
struct Key {
  std::string layer, key;

  bool of_layer() const { return !layer.empty(); }
  std::string text() const { return of_layer() ? "layers." + layer + "." + key : key; }
  // By name, whosever key it is.
  bool operator<(const Key& other) const {
    return std::pair(text(), layer) < std::pair(other.text(), other.layer);
  }
};
using Values = std::map<Key, std::string>;

std::string value_text(const ConfigNode& node) {
  if (node.kind == ConfigNode::Kind::kScalar) return node.scalar;
  std::vector<std::string> parts;
  for (const ConfigNode& item : node.items) parts.push_back(value_text(item));
  for (const auto& [key, value] : node.entries) parts.push_back(key + ": " + value_text(value));
  return node.kind == ConfigNode::Kind::kNull ? kNone : "[" + join(parts) + "]";
}

void collect(const ConfigNode& node, const Key& key, Values* values) {
  if (node.kind != ConfigNode::Kind::kMap) {
    (*values)[key] = value_text(node);
    return;
  }
  for (const auto& [name, value] : node.entries) {
    collect(value, {key.layer, key.key.empty() ? name : key.key + "." + name}, values);
  }
}

Values values_of(const ConfigNode& root) {
  Values values;
  for (const auto& [key, value] : root.entries) {
    if (key != "layers") collect(value, {"", key}, &values);
  }
  const ConfigNode* layers = root.find("layers");
  for (const ConfigNode& layer : layers ? layers->items : std::vector<ConfigNode>()) {
    const ConfigNode* name = layer.find("name");
    for (const auto& [key, value] : layer.entries) {
      if (key != "name") collect(value, {name ? name->scalar : kNone, key}, &values);
    }
  }
  return values;
}

std::vector<std::string> layer_names(const ConfigNode& root) {
  std::vector<std::string> names;
  const ConfigNode* layers = root.find("layers");
  for (const ConfigNode& layer : layers ? layers->items : std::vector<ConfigNode>()) {
    const ConfigNode* name = layer.find("name");
    names.push_back(name ? name->scalar : kNone);
  }
  return names;
}

std::string layer_type(const ConfigNode& root, const std::string& name) {
  for (const ConfigNode& layer : root.find("layers")->items) {
    const ConfigNode *found = layer.find("name"), *type = layer.find("type");
    if (found && found->scalar == name) return type ? type->scalar : kNone;
  }
  return kNone;
}

// "[3, 3]" is "3"
std::string collapsed(const std::string& text) {
  if (!text.starts_with("[") || !text.ends_with("]")) return text;
  const std::string inside = text.substr(1, text.size() - 2);
  const size_t comma = inside.find(", ");
  const std::string first = inside.substr(0, comma);
  return inside == first || inside == first + ", " + first ? first : text;
}

bool same_value(const std::string& a, const std::string& b) {
  const std::string x = collapsed(a), y = collapsed(b);
  if (x == y) return true;
  char *x_end = nullptr, *y_end = nullptr;
  const double x_number = read_number(x.c_str(), &x_end);
  const double y_number = read_number(y.c_str(), &y_end);
  return !x.empty() && !y.empty() && !*x_end && !*y_end && x_number == y_number;
}

bool is_any_of(const std::string& text, const std::vector<std::string>& list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

ConfigChange::Kind kind_of(const Key& key) {
  if (is_any_of(key.text(), {"train.epochs", "train.log_every", "train.goal", "train.init_from"}) ||
      key.text().starts_with("train.init_skip") || key.text().starts_with("train.early_stopping") ||
      (!key.of_layer() && key.key.starts_with("features."))) {
    return ConfigChange::Kind::kLength;
  }
  const bool implementation =
      is_any_of(key.key.substr(0, key.key.find('.')),
                {"backend", "layout", "kernels", "sources"}) ||
      is_any_of(key.text(), {"fuse", "fold_norms", "fp32_in_parts", "graph", "graph_steps",
                             "workspace_limit_mib", "data.stream"});
  return implementation ? ConfigChange::Kind::kImplementation : ConfigChange::Kind::kTraining;
}

constexpr const char* kDropout = "dropout";  // does nothing in an evaluation

// Whether that much of the training decides what its parameters make of the validation data.
bool decides_results(const Key& key) {
  if (is_any_of(key.text(), {"data.batch", "data.train_count", "data.augment"})) return false;
  if (key.of_layer() && key.key == "frozen") return false;
  return key.of_layer() || key.key.starts_with("data.");
}

void erase_if(ConfigNode* map, const char* key, const std::string& value) {
  const ConfigNode* node = map ? map->find(key) : nullptr;
  if (node && same_value(value_text(*node), value)) map->erase(key);
}

}  // namespace

ConfigNode resolved(ConfigNode config) {
  config = from_checkpoint(std::move(config));
  const ConfigNode* sources = config.find("sources");
  const std::optional<ConfigNode> kept = sources ? std::optional(*sources) : std::nullopt;
  try {
    config = read_setup(config, {.training = false}).config;
  } catch (const Error&) {
  }
  config.erase("sources");
  if (kept) config.at_or_add("sources") = *kept;
  erase_if(config.find("train"), "best", TrainSpec().best);
  erase_if(config.find("data"), "stream", "auto");
  erase_if(config.find("optimizer"), "decay_biases", "true");
  if (ConfigNode* schedule = config.find("schedule")) {
    for (const char* warmup : {"warmup_epochs", "warmup_steps"}) erase_if(schedule, warmup, "0");
    if (schedule->entries.size() == 1) erase_if(schedule, "type", "constant");
    if (schedule->entries.empty()) config.erase("schedule");
  }
  ConfigNode* layers = config.find("layers");
  if (!layers) return config;
  std::string before = "images";
  for (ConfigNode& layer : layers->items) {
    const ConfigNode *inputs = layer.find("inputs"), *kernel = layer.find("kernel");
    if (inputs && inputs->items.size() < 2) erase_if(&layer, "inputs", before);
    erase_if(&layer, "label_smoothing", "0");
    erase_if(&layer, "frozen", "false");
    const bool pools = layer.find("type") && layer.find("type")->scalar.ends_with("pool2d");
    if (pools && kernel && kernel->kind == ConfigNode::Kind::kList) {
      erase_if(&layer, "stride", value_text(*kernel));
    }
    const ConfigNode* name = layer.find("name");
    before = name ? name->scalar : "";
  }
  return config;
}

std::vector<ConfigChange> config_changes(const ConfigNode& before, const ConfigNode& now) {
  std::vector<ConfigChange> changes;
  // A layer that is in one alone is one change, not one a key.
  const std::vector<std::string> old_names = layer_names(before), new_names = layer_names(now);
  std::vector<std::string> old_common, new_common;
  for (const std::string& name : old_names) {
    if (is_any_of(name, new_names)) {
      old_common.push_back(name);
    } else {
      const std::string type = layer_type(before, name);
      changes.push_back(
          {.key = "layers." + name, .before = type, .now = kNone, .of_results = type != kDropout});
    }
  }
  for (const std::string& name : new_names) {
    if (is_any_of(name, old_names)) {
      new_common.push_back(name);
    } else {
      const std::string type = layer_type(now, name);
      changes.push_back(
          {.key = "layers." + name, .before = kNone, .now = type, .of_results = type != kDropout});
    }
  }
  if (old_common != new_common) {
    changes.push_back({.key = "layers",
                       .before = "[" + join(old_common) + "]",
                       .now = "[" + join(new_common) + "]",
                       .of_results = true});
  }
  const Values old_values = values_of(before), new_values = values_of(now);
  std::set<Key> keys;
  for (const Values* values : {&old_values, &new_values}) {
    for (const auto& [key, value] : *values) keys.insert(key);
  }
  for (const Key& key : keys) {
    if (key.of_layer() && !is_any_of(key.layer, old_common)) continue;
    const auto value = [&](const Values& values) {
      const auto found = values.find(key);
      return found == values.end() ? kNone : found->second;
    };
    if (same_value(value(old_values), value(new_values))) continue;
    const bool other_source =
        key.key.starts_with(kSources) && value(old_values) != kNone && value(new_values) != kNone;
    const ConfigChange::Kind kind = other_source ? ConfigChange::Kind::kTraining : kind_of(key);
    const bool idle = key.of_layer() && layer_type(before, key.layer) == kDropout &&
                      layer_type(now, key.layer) == kDropout;
    changes.push_back(
        {.key = key.text(),
         .before = value(old_values),
         .now = value(new_values),
         .kind = kind,
         .of_results = kind == ConfigChange::Kind::kTraining && !idle && decides_results(key)});
  }
  return changes;
}

std::string to_string(const ConfigChange& change) {
  std::string text = change.key + ": " + change.before + " -> " + change.now;
  std::replace(text.begin(), text.end(), '\n', ' ');  // one line
  return text;
}

}  // namespace duet
