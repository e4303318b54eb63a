#include "net/spec.h"

#include <algorithm>
#include <set>

#include "layers/layers.h"

namespace duet {
namespace {

std::vector<std::string> all_backend_names() {
  std::vector<std::string> names = {"auto", "cpu", "custom", "cudnn"};
  for (const LayerType* type : layer_types()) {
    for (const ImplInfo& info : type->implementations()) {
      if (std::find(names.begin(), names.end(), info.id) == names.end()) {
        names.emplace_back(info.id);
      }
    }
  }
  return names;
}

// Names become parts of paths, of tables and of other names.
constexpr size_t kLongestName = 100;

void check_layer_name(const std::string& name, ConfigReader& reader) {
  if (name.empty()) return;  // told already
  if (name.find_first_of("./+ ") != std::string::npos) {
    reader.error("name", "a layer's name may not hold '.', '/', '+' or blanks");
  } else if (name.size() > kLongestName) {
    reader.error("name", "a name has at most 100 bytes, this one " + std::to_string(name.size()));
  }
}

void check_network_name(const std::string& name, ConfigReader& reader) {
  if (name.find('/') != std::string::npos || name.starts_with('.')) {
    reader.error("name", "a name may not hold '/' or begin with '.': run folders are called by it");
  } else if (name.size() > kLongestName) {
    reader.error("name", "a name has at most 100 bytes, this one " + std::to_string(name.size()));
  }
}

// A name is fine if it is a family, kAuto or an id that `known` has.
bool check_backend_name(const std::string& name, const std::vector<std::string>& known, Mark mark,
                        const std::string& path, ConfigErrors& errors) {
  if (name == kAuto || family_from(name) ||
      std::find(known.begin(), known.end(), name) != known.end())
    return true;
  if (!built_with_cuda() && (name.starts_with("custom_") || name.starts_with("cudnn_"))) {
    errors.add_unsupported(mark, path + ": backend: '" + name + "': " + gpu_missing_reason());
    return false;
  }
  const auto near = nearest(name, known);
  errors.add(mark, path + ": backend: unknown implementation '" + name + "'" +
                       (near ? " (did you mean '" + *near + "'?)" : "") +
                       "; known: " + join(known));
  return false;
}

std::optional<BackendChoice> read_layer_backend(ConfigReader& reader, const Layer& layer,
                                                const std::vector<std::string>& known) {
  ConfigNode* node = reader.raw("backend");
  if (!node) return {};
  BackendChoice choice{.mark = reader.mark("backend")};
  if (node->kind == ConfigNode::Kind::kScalar) {
    choice.name = node->scalar;
    if (!check_backend_name(choice.name, known, choice.mark, reader.path(), reader.errors())) {
      return {};
    }
    return choice;
  }
  if (layer.passes().size() < 3) {
    reader.error("backend", std::string(layer.type()) +
                                " runs all its passes by one implementation; give one name");
    return {};
  }
  ConfigReader passes(*node, reader.path() + ": backend", reader.errors());
  for (Pass pass : layer.passes()) {
    const std::string key(to_string(pass));
    if (!passes.raw(key)) continue;
    const std::string name = passes.text(key);
    if (!name.empty() &&
        check_backend_name(name, known, passes.mark(key), reader.path(), reader.errors())) {
      choice.passes[pass] = name;
    }
  }
  passes.finish();
  return choice;
}

std::optional<Layout> read_layout(ConfigReader& reader, std::optional<std::string> fallback) {
  if (!fallback && !reader.raw("layout")) return {};
  return reader.choice("layout", {"nchw", "nhwc"}, fallback) == "nhwc" ? Layout::kNHWC
                                                                       : Layout::kNCHW;
}

const LayerType* read_type(ConfigReader& reader) {
  const std::string name = reader.text("type");
  const LayerType* type = find_layer_type(name);
  if (!type && !name.empty()) {
    std::vector<std::string> known;
    for (const LayerType* t : layer_types()) known.emplace_back(t->name);
    const auto near = nearest(name, known);
    reader.error("type", "unknown layer type '" + name + "'" +
                             (near ? " (did you mean '" + *near + "'?)" : "") +
                             "; known: " + join(known));
  }
  return type;
}

std::optional<LayerSpec> read_layer(ConfigNode& node, size_t index, std::set<std::string>& names,
                                    std::map<std::string_view, int>& counts, ConfigErrors& errors) {
  const std::string place = "layer " + std::to_string(index + 1);
  if (node.kind != ConfigNode::Kind::kMap) {
    errors.add(node.mark, place + ": expected a layer, such as {name: relu1, type: relu}");
    return {};
  }
  ConfigReader head(node, place, errors);
  const LayerType* type = read_type(head);
  if (!type) return {};
  LayerSpec spec{.stream = static_cast<uint32_t>(index), .mark = node.mark};
  spec.name = head.text("name", std::string(type->name) + std::to_string(++counts[type->name]));
  check_layer_name(spec.name, head);
  if (!spec.name.empty() && !names.insert(spec.name).second) {
    head.error("name", "two layers are called '" + spec.name + "'");
  }
  ConfigReader keys(node, "layer " + spec.name + " (" + std::string(type->name) + ")", errors);
  keys.raw("name");
  keys.raw("type");
  spec.layer = type->make(keys);
  std::vector<std::string> ids;
  for (const ImplInfo& info : type->implementations()) ids.emplace_back(info.id);
  spec.backend = read_layer_backend(keys, *spec.layer, ids);
  spec.layout = read_layout(keys, {});
  keys.finish();
  spec.keys = node;
  return spec;
}

void read_layers(ConfigNode* layers, NetSpec& spec, ConfigErrors& errors) {
  std::set<std::string> names;
  std::map<std::string_view, int> counts;
  const size_t mistakes = errors.count();
  for (size_t i = 0; i < layers->items.size(); ++i) {
    auto layer = read_layer(layers->items[i], i, names, counts, errors);
    // The shapes after a mistake are unknown: checking them would only tell of its consequences.
    if (layer && errors.count() == mistakes) spec.layers.push_back(std::move(*layer));
  }
  if (spec.layers.size() != layers->items.size()) return;
  for (const LayerSpec& layer : spec.layers) {
    const bool last = &layer == &spec.layers.back();
    if (layer.layer->takes_labels() == last) continue;
    errors.add(layer.mark, "layer " + layer.name +
                               (last ? ": the last layer must be a loss; add '- {type: "
                                       "softmax_cross_entropy}' at the end"
                                     : ": a loss must be the last layer of the network"));
  }
}

}  // namespace

NetSpec read_net_spec(ConfigNode& root, ConfigErrors& errors) {
  NetSpec spec;
  ConfigReader reader(root, "configuration", errors);
  spec.name = reader.text("name", "network");
  check_network_name(spec.name, reader);
  spec.backend.name = reader.text("backend", "custom");
  spec.backend.mark = reader.mark("backend");
  const bool backend_known = check_backend_name(spec.backend.name, all_backend_names(),
                                                spec.backend.mark, "configuration", errors);
  if (!backend_known) spec.backend.name = "cpu";  // for what is still to be read
  spec.layout = *read_layout(reader, "nchw");
  spec.math = reader.choice("math", {"fp32", "tf32"}, "fp32") == "tf32" ? Math::kTF32 : Math::kFP32;
  spec.fuse = reader.flag("fuse", true);
  spec.graph = reader.flag("graph", true);
  if (reader.raw("deterministic")) {
    reader.error("deterministic",
                 "there is no such key any more, as it changed nothing: every run repeats bit for "
                 "bit; delete it");
  }
  spec.seed = static_cast<uint64_t>(reader.integer("seed", 1, 0));
  spec.workspace_limit_mib = reader.integer("workspace_limit_mib", 1024, 0, 1 << 20);

  ConfigReader data = reader.map("data");
  spec.data.dataset = data.text("dataset");
  spec.data.batch = data.integer("batch", 64);

  ConfigReader train = reader.map("train");
  spec.train.epochs = train.integer("epochs", 5);
  spec.train.log_every = train.integer("log_every", 100);
  train.finish();

  reader.raw("optimizer");
  ConfigNode* layers = reader.raw("layers");
  reader.finish();
  if (!layers || layers->kind != ConfigNode::Kind::kList || layers->items.empty()) {
    errors.add(layers ? layers->mark : root.mark,
               "configuration: 'layers' must be a list of at least one layer");
  } else {
    read_layers(layers, spec, errors);
  }
  if (!backend_known) spec.layers.clear();
  return spec;
}

Device device_of(const NetSpec& spec) {
  if (spec.backend.name == kAuto) return gpu_available() ? Device::kGpu : Device::kCpu;
  const auto family = family_from(spec.backend.name);
  return device_of(family ? *family : family_of(spec.backend.name));
}

size_t workspace_limit(const NetSpec& spec) {
  return static_cast<size_t>(spec.workspace_limit_mib) << 20;
}

}  // namespace duet
