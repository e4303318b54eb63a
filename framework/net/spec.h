// NetSpec: a configuration, read and checked, before any shape or memory is known.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config.h"
#include "layers/layer.h"

namespace duet {

/// A `backend:` that leaves the choice to measurement (auto.h).
inline constexpr std::string_view kAuto = "auto";

/// What a `backend:` says: a family, an implementation's id or kAuto, for all passes or a pass
/// each.
struct BackendChoice {
  std::string name;                    // for every pass that `passes` does not name; may be empty
  std::map<Pass, std::string> passes;  // {forward: custom_naive, backward_data: cudnn, ...}
  Mark mark;
};

/// As the number of a layer: none, but a field of the batch.
inline constexpr int kField = -1;

/// What a layer reads: the output of a layer before it, by its number, or a field, by its name.
struct LayerInput {
  int layer = kField;
  std::string field = {};  // of kField
  bool operator==(const LayerInput&) const = default;
};

struct LayerSpec {
  std::string name;
  std::shared_ptr<const Layer> layer;  // not bound
  std::vector<LayerInput> inputs;
  int readers = 0;  // how often layers read its output
  std::optional<BackendChoice> backend;
  std::optional<Layout> layout;
  ConfigNode keys;            // as read, defaults filled in
  double loss_weight = 1.0;   // of a loss in the objective, which is the weighted sum of all
  bool frozen = false;        // in training, too, it runs as in evaluation, and nothing trains it
  std::string features = {};  // the features network that it is a layer of; empty: none
  /// Parameters are called "<prefix>.weight": the layer's name, or that of the features network
  /// and its layer.
  std::string parameter_prefix = {};
  uint32_t stream = 0;  // its place in the file, whatever fusion does: the Philox stream
  Mark mark;
};

struct DataSpec {
  std::string dataset;
  int64_t batch = 64;
};

struct TrainSpec {
  int64_t epochs = 5;
  int64_t log_every = 100;            // steps between metric lines
  std::string best = "val_accuracy";  // the metric of the best checkpoint
  /// A metric and the value that is wanted of it.
  struct Goal {
    std::string metric = "val_accuracy";
    double value = 0.0;
  };
  std::optional<Goal> goal;
  std::string init_from;  // a checkpoint to begin with (train/checkpoint/initial_weights.h)
  std::vector<std::string> init_skip;
  /// A training ends when `metric` has not improved by more than min_delta for `patience` epochs.
  struct EarlyStopping {
    std::string metric = "val_loss";
    int64_t patience = 0;  // 0: it does not
    double min_delta = 0.0;
  } early_stopping;
};

/// A frozen network beside the one that is trained, whose layers stand among the layers
/// (LayerSpec::features).
struct FeaturesSpec {
  std::string name;
  std::string weights;  // the file of its weights (train/checkpoint/features_weights.h)
  Mark mark;            // of that
};

struct NetSpec {
  std::string name;
  BackendChoice backend;
  Layout layout = Layout::kNCHW;
  Math math = Math::kFP32;
  bool fuse = true;
  bool fp32_in_parts = true;  // layers/split_products.h
  bool fold_norms = false;    // in evaluation and prediction (fold.h)
  bool graph = true;
  int64_t graph_steps = 8;  // of a training, or batches of an evaluation, in one launch
  uint64_t seed = 1;
  int64_t workspace_limit_mib = 1024;
  DataSpec data;
  TrainSpec train;
  std::vector<FeaturesSpec> features;
  std::vector<LayerSpec> layers;
};

/// Reads everything but the keys of the data set, the optimizer and the schedule, which their own
/// folders read (maps `data`, `optimizer` and `schedule`; finish() on those is theirs). Mistakes go
/// to `errors`; the layers are then those before the first mistake. The tree becomes the resolved
/// configuration: defaults are written into it.
NetSpec read_net_spec(ConfigNode& root, ConfigErrors& errors);

/// Returns the configuration of a checkpoint as read_net_spec() reads it: without keys and
/// implementations that have been removed, and without the paths of kernels, as only the user says
/// where code that runs comes from.
ConfigNode from_checkpoint(ConfigNode config);

/// Where the network runs: the device of its backend's family; for kAuto the GPU if there is one.
Device device_of(const NetSpec& spec);
/// Bytes, of workspace_limit_mib.
size_t workspace_limit(const NetSpec& spec);

}  // namespace duet
