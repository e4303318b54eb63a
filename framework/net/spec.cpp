#include "net/spec.h"

#include <algorithm>

#include "core/error.h"
#include "core/field.h"
#include "core/step_state.h"
#include "layers/layers.h"
#include "layers/objective.h"
#include "net/expand.h"
#include "net/features.h"
#include "net/fuse.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

std::vector<std::string> all_backend_names() {
  std::vector<std::string> names = {"auto", "cpu", "custom", "cudnn"};
  for (const LayerType* type : layer_types()) add_ids(*type, &names);
  return names;
}

constexpr std::string_view kFuseUpdate = "fuse_update";  // removed

// Names become parts of paths, of tables and of other names.
constexpr size_t kLongestName = 100;

bool is_field(const std::string& name) {
  const std::vector<std::string>& names = field_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

void check_layer_name(const std::string& name, ConfigReader& reader) {
  if (name.empty()) return;  // told already
  if (is_field(name)) {
    reader.error("name",
                 "'" + name + "' is what the " + name + " of the batch are called in 'inputs'");
    return;
  }
  const bool empty_part = ("." + name + ".").find("..") != std::string::npos;
  if (empty_part || name.find_first_of("/+ ") != std::string::npos) {
    reader.error("name",
                 "a layer's name may not hold '/', '+' or blanks, nor begin or end with '.'");
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

// Keys that other frameworks have in other places, and what they are here.
void reject_misplaced(ConfigReader& reader, const std::string& prefix) {
  constexpr std::pair<std::string_view, std::string_view> kPlaces[] = {
      {"batch", "data.batch"},
      {"batch_size", "data.batch"},
      {"dataset", "data.dataset"},
      {"epochs", "train.epochs"},
      {"learning_rate", "optimizer.learning_rate"},
      {"lr", "optimizer.learning_rate"}};
  for (const auto& [key, place] : kPlaces) {
    if (prefix + std::string(key) == place) continue;
    const size_t dot = place.find('.');
    reader.reject(key, "write '" + std::string(place.substr(0, dot)) + ": {" +
                           std::string(place.substr(dot + 1)) + ": ...}', or --set " +
                           std::string(place) + "=...");
  }
}

// What was meant by the name of a device, or of a library of it.
std::string family_hint(const std::string& name) {
  if (name != "gpu" && name != "cuda" && name != "nvidia" && name != "cublas") return "";
  return "; on a GPU: 'custom' (hand-written kernels), 'cudnn' (cuDNN and cuBLAS), or 'auto' (the "
         "fastest of all)";
}

// False if `path`, a file or a folder of kernels, was not loaded; `errors` say why.
bool load_kernels_of(const std::string& path, Mark mark, const std::string& key,
                     ConfigErrors& errors) {
  try {
    load_kernels({path});
    return true;
  } catch (const Error& error) {
    errors.add(mark, key + ": " + error.what());
    return false;
  }
}

// The key `kernels`: a path or a list of them.
void read_kernels(const ConfigNode& node, ConfigErrors& errors) {
  std::vector<const ConfigNode*> paths;
  for (const ConfigNode& item : node.items) paths.push_back(&item);
  if (node.kind == ConfigNode::Kind::kScalar) paths.push_back(&node);
  const bool all = std::all_of(paths.begin(), paths.end(), [](const ConfigNode* path) {
    return path->kind == ConfigNode::Kind::kScalar;
  });
  if (paths.empty() || !all) {
    errors.add(node.mark, "kernels: expected a folder of kernels, or a list of them");
    return;
  }
  for (const ConfigNode* path : paths) {
    load_kernels_of(path->scalar, path->mark, "kernels", errors);
  }
}

// A file of kernels that is named as a backend is loaded, and `name` becomes its id.
void load_backend(ConfigNode& name, const std::string& path, ConfigErrors& errors) {
  if (name.kind != ConfigNode::Kind::kScalar || !is_kernel_path(name.scalar)) return;
  if (!load_kernels_of(name.scalar, name.mark, path + ": backend", errors)) return;
  name.scalar = named_kernel_file(name.scalar).id;
}

// Every scalar in the tree that is a path of kernels, or a backend that has been removed, with its key.
void erase_missing_kernels(ConfigNode& node) {
  node.entries.remove_if([](const auto& entry) {
    const auto& [key, value] = entry;
    return is_kernel_path(value.scalar) || (key == "backend" && value.scalar == "cudnn_own_masks");
  });
  for (auto& [key, value] : node.entries) erase_missing_kernels(value);
  for (ConfigNode& item : node.items) erase_missing_kernels(item);
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
  if (is_kernel_path(name)) return false;  // told already
  const std::string hint = family_hint(name);
  const bool own = name.starts_with("custom_") || name.starts_with("cpu_");
  errors.add(
      mark,
      path + ": backend: unknown implementation '" + name + "'" +
          (hint.empty() ? did_you_mean(name, known) + "; known: " + join(known) : hint) +
          (own ? "; kernels of your own are found by --kernels PATH or the key 'kernels'" : ""));
  return false;
}

std::optional<BackendChoice> read_layer_backend(ConfigReader& reader, const Layer& layer,
                                                const LayerType& type) {
  ConfigNode* node = reader.raw("backend");
  if (!node) return {};
  BackendChoice choice{.mark = reader.mark("backend")};
  load_backend(*node, reader.path(), reader.errors());
  for (auto& [pass, name] : node->entries) load_backend(name, reader.path(), reader.errors());
  std::vector<std::string> known;
  add_ids(type, &known);
  for (const LayerType* block : block_types_of(type.name)) add_ids(*block, &known);
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
    for (const CompositeType& composite : composite_types()) known.push_back(composite.name);
    reader.error("type", "unknown layer type '" + name + "'" + did_you_mean(name, known) +
                             "; known: " + join(known));
  }
  return type;
}

std::vector<std::string> read_init_skip(ConfigReader& train) {
  std::vector<std::string> names = train.texts("init_skip", "the name of a layer");
  if (!train.has("init_from")) {
    train.error("init_skip", "belongs to init_from, which is not given");
  }
  return names;
}

// A val_accuracy, of which 0 is none, or {metric: NAME, value: NUMBER}.
std::optional<TrainSpec::Goal> read_goal(ConfigReader& train) {
  TrainSpec::Goal goal;
  if (train.raw("goal")->kind != ConfigNode::Kind::kMap) {
    goal.value = train.number("goal", {}, 0.0, 1.0);
    return goal.value == 0.0 ? std::optional<TrainSpec::Goal>() : goal;
  }
  ConfigReader keys = train.map("goal");
  goal.metric = keys.text("metric");
  goal.value = keys.number("value", {}, -1e30, 1e30);
  keys.finish();
  return goal;
}

class LayersReader {
 public:
  LayersReader(ConfigNode& list, NetSpec& spec, ConfigErrors& errors)
      : list_(list), spec_(spec), errors_(errors) {}

  void read() {
    const size_t mistakes = errors_.count();
    for (size_t i = 0; i < list_.items.size(); ++i) {
      auto layer = read_layer(list_.items[i], static_cast<int>(i));
      // The shapes after a mistake are unknown: checking them would only tell of its consequences.
      if (layer && errors_.count() == mistakes) spec_.layers.push_back(std::move(*layer));
    }
    if (spec_.layers.size() == list_.items.size()) check_ends();
  }

 private:
  std::optional<LayerSpec> read_layer(ConfigNode& node, int index) {
    const std::string place = "layer " + std::to_string(index + 1);
    if (node.kind != ConfigNode::Kind::kMap) {
      errors_.add(node.mark, place + ": expected a layer, such as {name: relu1, type: relu}");
      return {};
    }
    ConfigReader head(node, place, errors_);
    const LayerType* type = read_type(head);
    if (!type) {  // others may name it even so
      const ConfigNode* name = node.find("name");
      if (name && !name->scalar.empty()) numbers_.emplace(name->scalar, index);
      return {};
    }
    LayerSpec spec{.stream = static_cast<uint32_t>(index), .mark = node.mark};
    spec.name = head.text("name", std::string(type->name) + std::to_string(++counts_[type->name]));
    check_layer_name(spec.name, head);
    ConfigReader keys(node, "layer " + spec.name + " (" + std::string(type->name) + ")", errors_);
    keys.raw("name");
    keys.raw("type");
    spec.layer = type->make(keys);
    spec.inputs = read_inputs(keys, *spec.layer, spec.name);
    if (!spec.name.empty() && !numbers_.emplace(spec.name, index).second) {
      head.error("name", "two layers are called '" + spec.name + "'");
    }
    spec.backend = read_layer_backend(keys, *spec.layer, *type);
    spec.layout = read_layout(keys, {});
    spec.parameter_prefix = spec.name;
    // Not written where they are not given: checkpoints from before there were these keys agree.
    if (keys.raw("frozen")) spec.frozen = keys.flag("frozen", false);
    if (keys.raw("features")) read_features_layer(keys, spec_.features, &spec);
    if (spec.layer->is_loss() && keys.raw("weight"))
      spec.loss_weight = keys.number("weight", 1.0, kLeastWeight, kMostWeight);
    if (!spec.layer->is_end()) before_ = index;
    keys.finish();
    spec.keys = node;
    return spec;
  }

  // Without the key, the last layer before it whose output can be read. Fields that the layer needs
  // and the key leaves out are those of the batch.
  std::vector<LayerInput> read_inputs(ConfigReader& reader, const Layer& layer,
                                      const std::string& own) {
    std::vector<LayerInput> inputs = named_inputs(reader, own);
    if (inputs.empty()) {
      inputs.push_back(before_ == kField ? LayerInput{kField, std::string(kImagesField)}
                                         : LayerInput{before_});
    }
    const std::vector<std::string_view> fields = layer.fields();
    while (inputs.size() <= fields.size()) {
      inputs.push_back({kField, std::string(fields[inputs.size() - 1])});
    }
    return inputs;
  }

  std::vector<LayerInput> named_inputs(ConfigReader& reader, const std::string& own) {
    ConfigNode* node = reader.raw("inputs");
    if (!node) return {};
    std::vector<const ConfigNode*> words;
    if (node->kind == ConfigNode::Kind::kScalar) words.push_back(node);
    for (const ConfigNode& item : node->items) words.push_back(&item);
    std::vector<LayerInput> inputs;
    for (const ConfigNode* word : words) {
      const std::string name = word->kind == ConfigNode::Kind::kScalar ? word->scalar : "";
      const auto number = numbers_.find(name);
      inputs.push_back(number == numbers_.end() ? LayerInput{kField, name}
                                                : LayerInput{number->second});
      if (number != numbers_.end() || is_field(name)) continue;
      errors_.add(word->mark, reader.path() + ": inputs: " + why_not_readable(name, own));
    }
    if (words.empty()) reader.error("inputs", "expected the name of a layer, or a list of names");
    return inputs;
  }

  std::string why_not_readable(const std::string& name, const std::string& own) const {
    if (name.empty()) return "expected names of layers";
    if (name == own) return "a layer cannot read itself";
    for (const ConfigNode& layer : list_.items) {
      const ConfigNode* later = layer.find("name");
      if (later && later->scalar == name) {
        return "'" + name + "' comes after this layer, which can read only those before it";
      }
    }
    std::vector<std::string> known = field_names();
    for (const auto& [before, number] : numbers_) known.push_back(before);
    const auto near = nearest(name, known);
    return "there is no layer '" + name + "' before this one" +
           (near ? " (did you mean '" + *near + "'?)" : "") + "; there are: " + join(known);
  }

  void check_ends() {
    int losses = 0, metrics = 0;
    for (const LayerSpec& layer : spec_.layers) {
      losses += layer.layer->is_loss() ? 1 : 0;
      metrics += layer.layer->is_metric() ? 1 : 0;
      for (const LayerInput& input : layer.inputs) {
        if (input.layer == kField) continue;
        LayerSpec& read = spec_.layers[static_cast<size_t>(input.layer)];
        ++read.readers;
        if (!read.layer->is_end()) continue;
        errors_.add(layer.mark, "layer " + layer.name + ": reads " + read.name + ", a " +
                                    (read.layer->is_loss() ? "loss" : "metric") +
                                    ", which no layer can read; name another in 'inputs'");
      }
    }
    if (losses == 0) {
      const LayerSpec& last = spec_.layers.back();
      errors_.add(last.mark, "layer " + last.name +
                                 ": the network has no loss; add '- {type: softmax_cross_entropy}' "
                                 "at the end");
    }
    if (losses > WeightedLosses::kMost) {
      errors_.add(list_.mark, "layers: " + std::to_string(losses) + " losses; at most " +
                                  std::to_string(WeightedLosses::kMost) + " are possible");
    }
    if (metrics > kMostMetrics) {
      errors_.add(list_.mark, "layers: " + std::to_string(metrics) + " metrics; at most " +
                                  std::to_string(kMostMetrics) + " are possible");
    }
    for (const LayerSpec& layer : spec_.layers) {
      if (layer.readers > 0 || layer.layer->is_end()) continue;
      if (losses == 0 && &layer == &spec_.layers.back()) continue;
      errors_.add(layer.mark,
                  "layer " + layer.name +
                      ": nobody reads its output; name it in 'inputs' of a layer, or delete it");
    }
  }

  static constexpr int kMostMetrics = StepState::kMostTotals - 2 * WeightedLosses::kMost;
  static constexpr double kLeastWeight = 1e-6, kMostWeight = 1e6;

  ConfigNode& list_;
  NetSpec& spec_;
  ConfigErrors& errors_;
  std::map<std::string, int> numbers_;  // of the layers so far, by name
  std::map<std::string_view, int> counts_;
  int before_ = kField;  // the last layer so far whose output can be read
};

}  // namespace

NetSpec read_net_spec(ConfigNode& root, ConfigErrors& errors) {
  NetSpec spec;
  const bool expanded = expand_composites(root, errors);
  ConfigReader reader(root, "configuration", errors);
  spec.name = reader.text("name", "network");
  check_network_name(spec.name, reader);
  root.erase("sources");  // what an earlier run was computed by (train/setup.h)
  if (const ConfigNode* kernels = root.find("kernels")) read_kernels(*kernels, errors);
  if (ConfigNode* node = reader.raw("backend")) load_backend(*node, "configuration", errors);
  spec.backend.name = reader.text("backend", "custom");
  spec.backend.mark = reader.mark("backend");
  const bool backend_known = check_backend_name(spec.backend.name, all_backend_names(),
                                                spec.backend.mark, "configuration", errors);
  if (!backend_known) spec.backend.name = "cpu";  // for what is still to be read
  spec.layout = *read_layout(reader, "nchw");
  spec.math = math_from(reader.choice("math", math_names(), "fp32"));
  spec.fuse = reader.flag("fuse", true);
  spec.graph = reader.flag("graph", true);
  reader.reject("deterministic",
                "not any more, as it changed nothing: every run repeats bit for bit; delete it");
  if (const ConfigNode* fuses = root.find(kFuseUpdate); fuses && fuses->scalar == "false") {
    root.erase(kFuseUpdate);  // the default, in the folders of old runs
  }
  reader.reject(kFuseUpdate,
                "not any more, as it was never faster; delete it: the results are the same bits");
  spec.seed = static_cast<uint64_t>(reader.integer("seed", 1, 0));
  spec.workspace_limit_mib = reader.integer("workspace_limit_mib", 1024, 0, 1 << 20);
  reader.raw("kernels");
  // Not written where they are not given: checkpoints from before there were these keys agree.
  if (reader.raw("graph_steps")) spec.graph_steps = reader.integer("graph_steps", 8, 1, 64);
  if (reader.raw("fold_norms")) spec.fold_norms = reader.flag("fold_norms", false);
  if (reader.raw("fp32_in_parts")) spec.fp32_in_parts = reader.flag("fp32_in_parts", true);

  reject_misplaced(reader, "");

  ConfigReader data = reader.map("data");
  reject_misplaced(data, "data.");
  spec.data.dataset = data.text("dataset");
  spec.data.batch = data.integer("batch", 64);

  ConfigReader train = reader.map("train");
  reject_misplaced(train, "train.");
  spec.train.epochs = train.integer("epochs", 5);
  spec.train.log_every = train.integer("log_every", 100);
  // Keys that are not given are not written either: checkpoints from before there were any agree.
  // Which metrics there are depends on the layers (train/evaluate/metrics.h).
  if (train.raw("best")) spec.train.best = train.text("best");
  if (train.raw("goal")) spec.train.goal = read_goal(train);
  if (train.raw("init_from")) spec.train.init_from = train.text("init_from");
  if (train.raw("init_skip")) spec.train.init_skip = read_init_skip(train);
  if (train.raw("early_stopping")) {
    ConfigReader stopping = train.map("early_stopping");
    TrainSpec::EarlyStopping& read = spec.train.early_stopping;
    read.metric = stopping.text("metric", read.metric);
    read.patience = stopping.integer("patience");
    read.min_delta = stopping.number("min_delta", 0.0, 0.0, 1e30);
    stopping.finish();
  }
  train.finish();

  spec.features = read_features(reader);
  reader.raw("optimizer");
  reader.raw("schedule");
  ConfigNode* layers = reader.raw("layers");
  reader.finish();
  if (!layers || layers->kind != ConfigNode::Kind::kList || layers->items.empty()) {
    errors.add(layers ? layers->mark : root.mark,
               "configuration: 'layers' must be a list of at least one layer");
  } else if (expanded) {
    const size_t mistakes = errors.count();
    LayersReader(*layers, spec, errors).read();
    if (errors.count() == mistakes) check_features(root, spec, errors);
  }
  if (!backend_known) spec.layers.clear();
  return spec;
}

ConfigNode from_checkpoint(ConfigNode config) {
  config.erase("kernels");
  config.erase(kFuseUpdate);
  erase_missing_kernels(config);
  return config;
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
