#include "train/trained.h"

#include <spdlog/fmt/ranges.h>
#include <spdlog/spdlog.h>

#include "core/error.h"
#include "net/yaml.h"
#include "train/run_folder.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

}  // namespace

Trained open_trained(const TrainedOptions& options) {
  Trained trained{.checkpoint = checkpoint_named("--checkpoint", options.checkpoint)};
  const std::string file = trained.checkpoint.string();
  if (file != options.checkpoint) spdlog::info("checkpoint {}", file);
  trained.saved = describe_checkpoint(file);
  if (!trained.saved && options.config.empty()) {
    throw DataError(file +
                    ": does not say what network it is of (PyTorch saved it, or an earlier version "
                    "of Duet); name the network's file: --config CONFIG");
  }
  const bool own = options.config.empty();
  trained.setup =
      read_setup(own ? from_checkpoint(trained.saved->config) : read_yaml_file(options.config),
                 {.config = own ? file : options.config,
                  .backend = options.backend,
                  .assignments = options.assignments,
                  .training = false});
  check_device(trained.setup.spec);
  return trained;
}

DatasetInfo as_trained(DatasetInfo info, const std::optional<CheckpointDescription>& saved) {
  if (!saved || !saved->dataset || saved->dataset->name != info.name) return info;
  if (saved->dataset->channels == info.channels) {
    const auto text = [](const DatasetInfo& of) {
      return fmt::format("mean {}, stddev {}", fmt::join(of.mean, ", "),
                         fmt::join(of.stddev, ", "));
    };
    if (!info.mean.empty() && text(*saved->dataset) != text(info)) {
      spdlog::warn("images are normalised as the checkpoint says ({}), not as {} says ({})",
                   text(*saved->dataset), info.name, text(info));
    }
    info.mean = saved->dataset->mean;
    info.stddev = saved->dataset->stddev;
    info.columns = saved->dataset->columns;
  }
  if (saved->dataset->classes == info.classes) info.class_names = saved->dataset->class_names;
  return info;
}

DatasetInfo normalised_as_trained(const Trained& trained) {
  DatasetInfo info = as_trained(trained.setup.dataset.info, trained.saved);
  if (!info.mean.empty()) return info;
  throw ConfigError(trained.checkpoint.string() +
                    ": does not say how images are normalised, and the configuration does not "
                    "either; give data.mean and data.stddev");
}

Weights load_weights(const fs::path& checkpoint, const Setup& setup, Device device,
                     const CheckpointInfo& now, bool allow_changes) {
  const auto& layers = setup.folded ? setup.trained_layers : setup.layers;
  Weights trained(layers, setup.spec.seed, device);
  for (const std::string& change : load_parameters(checkpoint, trained, now, allow_changes)) {
    spdlog::warn("otherwise than it was trained: {}", change);
  }
  if (!setup.folded) return trained;
  Weights folded(setup.layers, setup.spec.seed, device);
  fold_weights(*setup.folded, trained, folded);
  std::vector<std::string> names;
  for (const FoldedNet::Norm& each : setup.folded->norms) names.push_back(each.norm);
  spdlog::info("folded into convolutions: {}", names.empty() ? "nothing" : join(names));
  return folded;
}

std::string class_name(const DatasetInfo& info, size_t number) {
  return number < info.class_names.size() ? info.class_names[number] : std::to_string(number);
}

void check_device(const NetSpec& spec) {
  if (device_of(spec) == Device::kCpu || gpu_available()) return;
  throw UnsupportedError("backend '" + spec.backend.name + "': " + gpu_missing_reason());
}

}  // namespace duet
