// From the command line and the YAML file to everything a run is made of, with all mistakes at
// once.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/config.h"
#include "data/set/dataset.h"
#include "net/fold.h"
#include "net/plan.h"
#include "net/resolve.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "user_kernels/user_kernels.h"

namespace duet {

/// What the user asked for beside the file; each wins over the file.
struct SetupOptions {
  std::string config;                    // path of the YAML file
  std::optional<std::string> backend;    // family or implementation id
  std::vector<std::string> assignments;  // "a.b=value"
  std::optional<int64_t> epochs;
  bool part_of_run = false;  // `epochs` are a part of the training that the file describes: the
                             // schedule is of all of it
  std::optional<int64_t> seed;
  std::string init_from;               // a checkpoint to begin with
  std::vector<std::string> init_skip;  // layers that begin with initial values even so
  bool training = true;                // else sizes that cannot be trained are no mistake
};

struct Setup {
  /// Resolved: every key with the value that is used. Of the user's kernels that run, `kernels` has
  /// the paths, and `sources` the hashes by name: {conv2d_custom_mine: 3f0c9a..}.
  ConfigNode config;
  NetSpec spec;
  DatasetLoader dataset;  // its keys are read; nothing is loaded
  std::unique_ptr<Optimizer> optimizer;
  Schedule schedule;
  std::vector<ResolvedLayer> layers;
  /// With fold_norms, and not of a training: what `layers` are made of, and the layers that were
  /// trained.
  std::optional<FoldedNet> folded;
  std::vector<ResolvedLayer> trained_layers;
};

/// Throws ConfigError or UnsupportedError with every mistake found. Loads no data, needs no GPU.
Setup read_setup(const SetupOptions& options);
/// The same for a tree that was read already; options.config names it in messages.
Setup read_setup(ConfigNode config, const SetupOptions& options);

/// The user's kernels that run something in the network.
std::vector<std::shared_ptr<const UserKernels>> kernels_of(
    const std::vector<ResolvedLayer>& layers);

/// Throws ConfigError if the batch is larger than the training data; `file` is the configuration's.
void check_batch(const Setup& setup, const std::string& file, const Dataset& data);

/// Throws ConfigError if the warm-up is not shorter than the schedule. A part of a run, or a
/// profile, may end within it.
void check_schedule(const Setup& setup, const std::string& file, const Dataset& data);

/// The fields of a batch in training.
std::vector<BatchField> fields_of(const Setup& setup);
/// These, and optimizer and schedule with their keys, in lines for people. Without a
/// schedule nothing is said of it.
std::string training_text(const Setup& setup);

/// Makes the choices of `backend: auto` (net/auto.h), measuring where no earlier run has, and logs
/// what it does. Does nothing if all implementations are named. `mode` is what the network will
/// run in.
void choose_implementations(Setup& setup, Context& context, NetMode mode = NetMode::kTraining);

}  // namespace duet
