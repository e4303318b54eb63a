#include "train/setup.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/printable.h"
#include "core/utf8.h"
#include "device/stopwatch.h"
#include "net/auto.h"
#include "net/expand.h"
#include "net/table.h"
#include "net/yaml.h"
#include "train/evaluate/metrics.h"

namespace duet {
namespace {

DatasetLoader read_data(ConfigNode& root, const std::string& name, ConfigErrors& errors) {
  ConfigReader reader(root.at_or_add("data"), "data", errors);
  for (const char* common : {"dataset", "batch"}) reader.raw(common);
  const DatasetType* type = find_dataset_type(name);
  if (type) {
    DatasetLoader loader = read_dataset(*type, reader);
    reader.finish();
    return loader;
  }
  std::vector<std::string> names;
  for (const DatasetType* t : dataset_types()) names.emplace_back(t->name);
  if (!name.empty()) {
    reader.error("dataset", "unknown data set '" + name + "'" + did_you_mean(name, names) +
                                "; known: " + join(names));
  }
  return {};
}

// What names a layer that a composite stands for waits until it is there.
void set_values(ConfigNode& root, const SetupOptions& options) {
  std::vector<std::string> later;
  for (const std::string& assignment : options.assignments) {
    if (has_place_for(root, assignment)) {
      set_value(root, assignment);
    } else {
      later.push_back(assignment);
    }
  }
  ConfigErrors errors(options.config);
  expand_composites(root, errors);
  errors.raise_if_any();
  for (const std::string& assignment : later) set_value(root, assignment);
}

// The resolved configuration is saved, in checkpoints as JSON.
void check_utf8(const std::string& option, const std::string& text) {
  if (is_utf8(text)) return;
  throw ConfigError(option + " " + printable(text) +
                    ": the run's configuration names it, and it is not UTF-8; rename it");
}

// As YAML reads it, whatever characters are in it.
std::string yaml_text(const nlohmann::json& value) { return value.dump(); }

// The epochs that the file asks for, whatever the command line does; the default where it is wrong.
int64_t epochs_of(const ConfigNode& config) {
  ConfigNode train = config.find("train") ? *config.find("train") : ConfigNode::map();
  ConfigErrors ignored("");
  return ConfigReader(train, "train", ignored).integer("epochs", TrainSpec().epochs);
}

// What the network does not have cannot be watched. The best epoch of one without an accuracy is
// that of the least loss.
void check_metrics(Setup& setup, ConfigErrors& errors) {
  std::vector<std::string> known;
  for (const MetricInfo& metric : metrics_of(setup.layers)) known.push_back(metric.name);
  const ConfigNode* train = setup.config.find("train");
  const auto check = [&](const ConfigNode* map, const char* key,
                         const std::string& place = "train: ") {
    const ConfigNode* value = map ? map->find(key) : nullptr;
    if (!value || std::find(known.begin(), known.end(), value->scalar) != known.end()) return;
    const std::string why =
        value->scalar == "val_top5"
            ? "'val_top5' is always 1 of a network of no more than 5 outputs"
            : "unknown metric '" + value->scalar + "'" + did_you_mean(value->scalar, known);
    errors.add(value->mark, place + key + ": " + why + "; there are: " + join(known));
  };
  check(train, "best");
  if (!train->find("best") &&
      std::find(known.begin(), known.end(), "val_accuracy") == known.end()) {
    setup.spec.train.best = "val_loss";
  }
  if (const ConfigNode* goal = train->find("goal"); setup.spec.train.goal) {
    if (goal->kind == ConfigNode::Kind::kMap) {
      check(goal, "metric", "train: goal: ");
    } else if (std::find(known.begin(), known.end(), "val_accuracy") == known.end()) {
      errors.add(goal->mark,
                 "train: goal: the network has no val_accuracy; name another metric: "
                 "{metric: NAME, value: NUMBER}; there are: " +
                     join(known));
    }
  }
  check(train->find("early_stopping"), "metric", "train: early_stopping: ");
  if (setup.schedule.plateau) check(setup.config.find("schedule"), "metric", "schedule: ");
}

// `named` are the sources of a configuration that was resolved before.
void warn_of_other_sources(const Setup& setup, const ConfigNode& named) {
  for (const auto& kernels : kernels_of(setup.layers)) {
    const KernelFile& file = kernels->file();
    const ConfigNode* source = named.find(file.name());
    if (!source || source->scalar == file.hash) continue;
    spdlog::warn(
        "{} is not what the configuration was written with: its source is {} and 'sources' names "
        "{}; the other one may be in the folder kernels/ of the run",
        file.path.string(), file.hash, printable(source->scalar));
  }
}

// So that the resolved configuration finds the user's kernels that run, and tells another source.
void note_sources(Setup& setup) {
  const auto used = kernels_of(setup.layers);
  setup.config.erase("sources");
  if (used.empty()) return;
  ConfigNode paths{.kind = ConfigNode::Kind::kList};
  for (const auto& kernels : used) {
    const KernelFile& file = kernels->file();
    check_utf8("--kernels", file.path.string());
    paths.items.push_back(ConfigNode::of(file.path.string()));
    setup.config.at_or_add("sources").at_or_add(file.name()) = ConfigNode::of(file.hash);
  }
  setup.config.at_or_add("kernels") = paths;
}

}  // namespace

std::vector<std::shared_ptr<const UserKernels>> kernels_of(
    const std::vector<ResolvedLayer>& layers) {
  std::vector<std::shared_ptr<const UserKernels>> used;
  for (const ResolvedLayer& layer : layers) {
    for (const PassChoice& choice : layer.passes) {
      const auto found = find_kernels(layer.layer->type(), choice.id);
      if (found && std::find(used.begin(), used.end(), found) == used.end()) used.push_back(found);
    }
  }
  return used;
}

Setup read_setup(const SetupOptions& options) {
  return read_setup(read_yaml_file(options.config), options);
}

Setup read_setup(ConfigNode config, const SetupOptions& options) {
  Setup setup;
  setup.config = std::move(config);
  set_values(setup.config, options);
  const int64_t file_epochs = epochs_of(setup.config);
  const auto override = [&](const std::string& assignment) { set_value(setup.config, assignment); };
  if (options.backend) override("backend=" + *options.backend);
  check_utf8("--init-from", options.init_from);
  for (const std::string& layer : options.init_skip) check_utf8("--init-skip", layer);
  if (options.epochs) override("train.epochs=" + std::to_string(*options.epochs));
  if (!options.init_from.empty()) override("train.init_from=" + yaml_text(options.init_from));
  if (!options.init_skip.empty()) override("train.init_skip=" + yaml_text(options.init_skip));
  if (options.seed) override("seed=" + std::to_string(*options.seed));

  ConfigErrors errors(options.config);
  const ConfigNode* sources = setup.config.find("sources");
  const ConfigNode named = sources ? *sources : ConfigNode{};
  setup.spec = read_net_spec(setup.config, errors);
  const size_t mistakes = errors.count();
  setup.dataset = read_data(setup.config, setup.spec.data.dataset, errors);
  const DatasetInfo& info = setup.dataset.info;
  const bool shape_known = info.channels > 0 && errors.count() == mistakes;
  ConfigReader optimizer(setup.config.at_or_add("optimizer"), "optimizer", errors);
  setup.optimizer = read_optimizer(optimizer);
  if (ConfigNode* node = setup.config.find("schedule")) {
    ConfigReader schedule(*node, "schedule", errors);
    setup.schedule =
        read_schedule(schedule, options.part_of_run ? file_epochs : setup.spec.train.epochs);
  }
  if (shape_known && !setup.spec.layers.empty()) {
    const auto fields = fields_of(info, setup.spec.data.batch, options.training);
    setup.layers = resolve(setup.spec, fields, errors, options.training);
    if (setup.spec.fold_norms && !options.training && errors.empty()) {
      setup.trained_layers = std::move(setup.layers);
      setup.folded = fold_norms(setup.spec);
      setup.layers = resolve(setup.folded->spec, fields, errors, false);
    }
  }
  if (options.training && errors.empty()) check_metrics(setup, errors);
  errors.raise_if_any();
  warn_of_other_sources(setup, named);
  note_sources(setup);
  return setup;
}

void check_batch(const Setup& setup, const std::string& file, const Dataset& data) {
  if (setup.spec.data.batch <= data.train.count) return;
  ConfigErrors errors(file);
  errors.add(setup.config.find("data")->find("batch")->mark,
             "data: batch: " + std::to_string(setup.spec.data.batch) + " is larger than the " +
                 std::to_string(data.train.count) + " training images of " + data.name +
                 "; choose a smaller batch");
  errors.raise_if_any();
}

void check_schedule(const Setup& setup, const std::string& file, const Dataset& data) {
  const int64_t per_epoch = data.train.count / setup.spec.data.batch;
  const int64_t warmup = setup.schedule.warmup.in_steps(per_epoch);
  const int64_t total = setup.schedule.total.in_steps(per_epoch);
  if (!setup.schedule.ends || warmup < total) return;
  ConfigErrors errors(file);
  errors.add(setup.config.find("schedule")->mark,
             total == 0
                 ? "schedule: its length comes to 0 steps, where an epoch has " +
                       std::to_string(per_epoch) + "; choose a longer one"
                 : "schedule: the warm-up takes " + std::to_string(warmup) + " of the schedule's " +
                       std::to_string(total) + " steps; it must be shorter");
  errors.raise_if_any();
}

std::vector<BatchField> fields_of(const Setup& setup) {
  return fields_of(setup.dataset.info, setup.spec.data.batch, true);
}

std::string training_text(const Setup& setup) {
  std::vector<std::string> fields;
  for (const BatchField& field : fields_of(setup)) {
    fields.push_back(text_of(field) + " " + field.desc.shape.to_string());
  }
  std::vector<std::vector<std::string>> rows = {{"batch", join(fields)}};
  for (const char* part : {"optimizer", "schedule"}) {
    const ConfigNode* node = setup.config.find(part);
    if (!node) continue;
    std::vector<std::string> keys;
    for (const auto& [key, value] : node->entries) {
      keys.push_back(key == "type" ? value.scalar : key + " " + value.scalar);
    }
    rows.push_back({part, join(keys)});
  }
  return format_table(rows);
}

void choose_implementations(Setup& setup, Context& context, NetMode mode) {
  static TuningCache cache(auto_cache_path());  // so that a process never measures twice
  const Elapsed watch;
  bool measured = false;
  const auto info = [&](const std::string& text) {
    measured = true;
    spdlog::info(text);
  };
  choose_automatically(setup.layers, context, cache,
                       {info, [](const std::string& text) { spdlog::warn(text); }}, mode);
  note_sources(setup);
  if (!measured) return;
  const std::string why = cache.why_not_kept();
  spdlog::info("auto: took {:.1f} s; the result is {}", watch.seconds(),
               why.empty() ? "kept in " + auto_cache_path().string() : "not kept: " + why);
}

}  // namespace duet
