// The sides of a comparison: one network and one task, computed in several ways.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compare/arms_options.h"
#include "measure/time/timing.h"
#include "train/setup.h"
#include "train/step/training.h"

namespace duet {

/// One side. Its network is resolved; nothing is in memory yet.
struct Arm {
  std::string name;      // "custom", "other"; two of the same request are told apart by "#2"
  std::string request;   // as the user gave it
  ConfigNode file;       // as it was read, once
  SetupOptions options;  // what is changed in it
  NetSpec spec;
  std::vector<ResolvedLayer> layers;  // `auto` is resolved by RunningArm
  std::string config;                 // resolved, as YAML

  Device device() const { return device_of(spec); }
  /// The same arm with another batch or seed, whatever the file holds by now. Throws what
  /// read_setup() throws.
  Setup setup(std::optional<int64_t> batch = {}, std::optional<uint64_t> seed = {}) const;
};

/// custom and cudnn where there is a GPU, else cpu_blas and cpu_reference.
std::vector<std::string> default_arms();

/// Reads all arms. A request that is a family or an id runs the layers of `config` that name no
/// implementation of their own; one that ends in .yaml or .yml is a configuration of its own.
/// Arms may differ in how they compute alone (backend, layout, fuse, graph, math,
/// workspace_limit_mib): what they compute - data, seed, layers and their sizes, optimizer,
/// epochs - must be the same. Throws ConfigError or UnsupportedError with every mistake of every
/// arm, and UnsupportedError where an arm needs a GPU and there is none.
std::vector<Arm> read_arms(const ArmsOptions& options);

/// An arm with everything it needs to train.
class RunningArm {
 public:
  /// Takes all memory and prepares; `dataset` may go afterwards. Throws what Arm::setup(),
  /// check_batch() and Training throw.
  RunningArm(const Arm& arm, const Dataset& dataset, std::optional<int64_t> batch = {},
             std::optional<uint64_t> seed = {});

  const Arm& arm() const { return arm_; }
  const Setup& setup() const { return setup_; }
  Context& context() { return context_; }
  Training& training() { return *training_; }
  int64_t batch() const { return setup_.spec.data.batch; }
  /// Algorithm searches, warm-up and capture included.
  double prepare_seconds() const { return prepare_seconds_; }

 private:
  const Arm& arm_;
  Setup setup_;
  Context context_;
  std::unique_ptr<Training> training_;
  double prepare_seconds_ = 0.0;
};

using RunningArms = std::vector<std::unique_ptr<RunningArm>>;

/// Training steps of an arm, for time_anew(). Throws InterruptedError between blocks when
/// the user asked to stop. REQUIRES: the arm outlives it.
Workload training_steps(RunningArm& arm);
/// Inference of a batch: the network forward without its loss, dropout off, with the gather of the images.
Workload inference_steps(RunningArm& arm);

}  // namespace duet
