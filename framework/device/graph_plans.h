// Engines and plans of cuDNN's graph API (device/cudnn_graph.h): what cuDNN proposes for a graph is
// filtered by its notes, timed, checked and remembered. Include only in files that are compiled with
// CUDA.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/context.h"
#include "device/cudnn_graph.h"
#include "device/tuning_cache.h"

namespace duet::gpu {

/// An engine and the settings that it runs with.
struct EngineConfiguration {
  int64_t engine = 0;
  std::map<int64_t, int64_t> knobs;  // values by cudnnBackendKnobType_t

  bool operator==(const EngineConfiguration&) const = default;
  /// "engine 37, knobs 2=1 5=0"
  std::string to_string() const;

  /// For a TuningCache.
  TuningCache::Entry to_entry() const;
  /// Nothing if the entry is of another kind.
  static std::optional<EngineConfiguration> from_entry(const TuningCache::Entry& entry);
};

/// Which engines may run.
struct EngineLimits {
  /// In float32 those round products to TF32. Engines that compile a kernel have the note whether or
  /// not there is a product in the graph.
  bool tensor_cores = false;
  /// FFT and Winograd's, which round in between. Where operands are stored in fewer bits than the
  /// sums have, results of them are not those of the sums.
  bool transforms = false;
  /// Proposals that are made plans of and timed. Some take half a second to be compiled.
  size_t most = 10;
};

/// What cuDNN has for `graph`: what its heuristics propose, best first, then every engine as it is by
/// default; those whose notes say that results repeat, that sums are not in reduced precision and,
/// unless `limits` allow it, that tensor cores are not used. An engine may still refuse the graph.
/// REQUIRES: a GPU context.
std::vector<EngineConfiguration> proposed_engines(Context& context, OperationGraph& graph,
                                                  const EngineLimits& limits);

/// One configuration made ready to run. Its graph must outlive it.
class ExecutionPlan {
 public:
  /// May compile kernels. Throws DeviceError if the engine cannot run the graph so.
  ExecutionPlan(Context& context, OperationGraph& graph, const EngineConfiguration& configuration);

  const EngineConfiguration& configuration() const { return configuration_; }
  size_t workspace_bytes() const { return workspace_; }
  /// Queues the plan on context.stream(). `memory` is of each tensor that is no intermediate.
  void run(Context& context, const std::vector<std::pair<OperationGraph::Tensor, void*>>& memory,
           void* workspace) const;

 private:
  EngineConfiguration configuration_;
  BackendDescriptor plan_;
  size_t workspace_ = 0;
};

/// Where all plans are remembered, by plan_key().
TuningCache& plan_cache();
/// `what` names the problem and the pass.
std::string plan_key(const std::string& what, const Context& context);
/// Nothing if the entry is nothing that this cuDNN would run within context.workspace_limit().
std::optional<ExecutionPlan> recalled_plan(Context& context, OperationGraph& graph,
                                           const TuningCache::Entry& entry);

struct TimedPlan {
  ExecutionPlan plan;
  double microseconds = std::numeric_limits<double>::infinity();
};
/// Plans of the first limits.most proposals that can be made and fit context.workspace_limit(), not
/// timed yet.
/// None for a graph that cuDNN does not know. REQUIRES: a GPU context.
std::vector<TimedPlan> plans_for(Context& context, OperationGraph& graph,
                                 const EngineLimits& limits);
/// The fastest of `plans` that takes less than `limit` and is `right`. `queue` puts one's run on the
/// GPU's stream. Synchronises.
std::optional<TimedPlan> fastest_plan(Context& context, std::vector<TimedPlan> plans,
                                      const std::function<void(const ExecutionPlan&)>& queue,
                                      const std::function<bool(const ExecutionPlan&)>& right,
                                      double limit = std::numeric_limits<double>::infinity());

/// A graph and the plan that runs it: the fastest of those that leave the same bits twice.
class PlannedGraph {
 public:
  using Tensor = OperationGraph::Tensor;

  explicit PlannedGraph(Tensor first = 1) : graph(first) {}
  PlannedGraph(const PlannedGraph&) = delete;

  /// To be complete before prepare().
  OperationGraph graph;

  /// Chooses the plan, by trial runs on memory of its own, or remembers the choice. May allocate and
  /// synchronise. Throws UnsupportedError if cuDNN has none; `what` names the problem and the pass.
  void prepare(Context& context, const std::string& what, const EngineLimits& limits);
  size_t workspace_bytes() const { return plan_ ? plan_->workspace_bytes() : 0; }
  std::string detail() const { return plan_->configuration().to_string(); }
  /// REQUIRES: prepare().
  void run(Context& context, const std::vector<std::pair<Tensor, void*>>& memory,
           void* workspace) const {
    plan_->run(context, memory, workspace);
  }

 private:
  std::optional<ExecutionPlan> plan_;
};

}  // namespace duet::gpu
