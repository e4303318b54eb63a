#include "train/trainer.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/output_files.h"
#include "core/write_file.h"
#include "net/auto.h"
#include "net/drawing.h"
#include "net/table.h"
#include "train/checkpoint/features_weights.h"
#include "train/checkpoint/initial_weights.h"
#include "train/evaluate/evaluate.h"
#include "train/run/run_folder.h"
#include "train/run/training_run.h"
#include "train/step/profiler.h"

namespace duet {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

void print_json(const TrainerOptions& options, const json& object) {
  if (options.json) std::printf("%s\n", json_text(object).c_str());
}

// The file that --resume or --evaluate names.
fs::path existing_checkpoint(const std::string& option, const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) {
    const fs::path last = path / "checkpoints" / "last.safetensors";
    throw ConfigError(option + " " + path.string() + ": is a folder; name the checkpoint in it, " +
                      (fs::exists(last, error) ? last.string() : "a .safetensors file"));
  }
  if (!fs::exists(path, error)) {
    throw ConfigError(option + " " + path.string() + ": there is no such file");
  }
  return path;
}

// The folder of the checkpoint's own run, if that is to go on: locked before the checkpoint is
// read. Nothing if the run is to go on in a new folder. Throws ConfigError if another run is there:
// its checkpoints would be overwritten.
std::optional<RunFolder> folder_to_go_on_in(const fs::path& checkpoint, const fs::path& out) {
  const fs::path own = run_folder_of(checkpoint);
  std::error_code error;
  if (!own.empty() && (out.empty() || fs::equivalent(out, own, error))) {
    return RunFolder::reopen(out.empty() ? own : out);
  }
  if (!out.empty()) RunFolder::check_free(out);
  return {};
}

void check_features(const TrainerOptions& options, const Setup& setup) {
  ConfigErrors errors(options.setup.config);
  check_features_weights(setup.spec, setup.layers, errors);
  errors.raise_if_any();
}

// A dry run refuses weights that the run would refuse. One that goes on from a checkpoint reads none.
void check_initial_weights(const TrainerOptions& options, const Setup& setup) {
  const TrainSpec& train = setup.spec.train;
  if (!options.resume.empty() || !options.evaluate.empty()) return;
  check_features(options, setup);
  if (train.init_from.empty()) return;
  Weights weights(setup.layers, setup.spec.seed, Device::kCpu);
  take_initial_weights(train.init_from, train.init_skip, weights);
}

}  // namespace

void show_network(Setup& setup, bool as_json, const std::string& svg) {
  const NetSpec& spec = setup.spec;
  check_outputs({{"--svg", svg}});
  recall_choices(setup.layers, device_of(spec), workspace_limit(spec),
                 TuningCache(auto_cache_path()));
  if (!svg.empty()) write_file(svg, network_svg(spec.name, setup.layers));
  if (as_json) {
    json object = training_json(setup);
    object["name"] = spec.name;
    for (const BatchField& field : fields_of(setup)) {
      object["fields"].push_back({{"name", field.name},
                                  {"kind", to_string(field.kind)},
                                  {"shape", field.desc.shape.to_string()}});
    }
    object["parameters"] = parameter_count(setup.layers);
    object["layers"] = network_json(setup.layers, nullptr);
    std::printf("%s\n", json_text(object).c_str());
  } else {
    std::fputs((network_table(setup.layers, nullptr) + training_text(setup)).c_str(), stdout);
  }
}

int run_trainer(const TrainerOptions& options) {
  Setup setup = read_setup(options.setup);
  const NetSpec& spec = setup.spec;
  if (options.dry_run) {
    check_initial_weights(options, setup);
    show_network(setup, options.json);
    return kExitDone;
  }
  check_device(spec);
  // What can be told without the data is told before it is loaded.
  if (!options.evaluate.empty()) {
    evaluate(existing_checkpoint("--evaluate", options.evaluate), setup,
             {options.data, options.allow_changes, options.json});
    return kExitDone;
  }
  fs::path checkpoint;
  std::optional<RunFolder> folder;
  if (!options.resume.empty()) {
    checkpoint = options.resume == "last" ? find_last_checkpoint(spec.name, options.out)
                                          : existing_checkpoint("--resume", options.resume);
    folder = folder_to_go_on_in(checkpoint, options.out);
    setup.spec.train.init_from.clear();  // it went on from there long ago
    for (FeaturesSpec& network : setup.spec.features)
      network.weights.clear();  // the checkpoint has them
  } else if (!options.out.empty()) {
    RunFolder::check_free(options.out);
  }
  if (!spec.train.init_from.empty()) checkpoint_named("train.init_from:", spec.train.init_from);
  check_features(options, setup);
  const Dataset data = load_dataset(setup, options.data);
  check_batch(setup, options.setup.config, data);
  if (!options.profile) check_schedule(setup, options.setup.config, data);
  Context context(device_of(spec));
  context.set_workspace_limit(workspace_limit(spec));
  choose_implementations(setup, context);
  Training training(spec, setup.layers, data, std::move(setup.optimizer), setup.schedule, context);
  if (options.profile) {
    training.prepare();
    print_json(options, run_profiler(training, setup, options.out));
  } else {
    return TrainingRun(options, setup, data, training).run(std::move(folder), checkpoint);
  }
  return kExitDone;
}

}  // namespace duet
