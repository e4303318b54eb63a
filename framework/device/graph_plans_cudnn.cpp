#include "device/graph_plans.h"

#include <algorithm>

#include "core/bfloat16.h"
#include "core/error.h"
#include "core/tensor.h"
#include "device/graph_time.h"

namespace duet::gpu {
namespace {

constexpr size_t kMostProposals = 64;  // of each of cuDNN's heuristics

bool has(const std::vector<cudnnBackendNumericalNote_t>& notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

bool allowed(const BackendDescriptor& engine, const EngineLimits& limits) {
  const auto notes = engine.notes<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  return (limits.transforms ||
          (!has(notes, CUDNN_NUMERICAL_NOTE_FFT) && !has(notes, CUDNN_NUMERICAL_NOTE_WINOGRAD))) &&
         !has(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) &&
         !has(notes, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION) &&
         (limits.tensor_cores || (!has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE) &&
                                  !has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)));
}

/// What `configuration`, one of cuDNN's proposals, says, if it is allowed.
std::optional<EngineConfiguration> read(const BackendDescriptor& configuration,
                                        const EngineLimits& limits) {
  const std::vector<BackendDescriptor> engine =
      configuration.descriptors(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engine.empty() || !allowed(engine[0], limits)) return {};
  EngineConfiguration found = {.engine = engine[0].number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX),
                               .knobs = {}};
  for (const BackendDescriptor& choice :
       configuration.descriptors(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                 CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, CUDNN_KNOB_TYPE_COUNTS)) {
    found.knobs[choice.knob()] = choice.number(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
  }
  return found;
}

/// `configuration` as an engine configuration of cuDNN's, made ready to run.
BackendDescriptor plan_of(Context& context, OperationGraph& graph,
                          const EngineConfiguration& configuration) {
  const cudnnBackendDescriptor_t whole = graph.get(context.cudnn());
  BackendDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, whole)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, configuration.engine)
      .finalize();
  std::vector<BackendDescriptor> choices;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (const auto& [type, value] : configuration.knobs) {
    BackendDescriptor& choice = choices.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value)
        .finalize();
    raw.push_back(choice.get());
  }
  BackendDescriptor chosen(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  chosen.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine.get());
  if (!raw.empty()) chosen.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, raw);
  chosen.finalize();
  BackendDescriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, context.cudnn())
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, chosen.get())
      .finalize();
  return plan;
}

/// Memory of a graph for trial runs.
class Trial {
 public:
  explicit Trial(const OperationGraph& graph, size_t workspace)
      : workspace_(Device::kGpu, workspace) {
    for (const OperationGraph::Memory& each : graph.memory()) {
      if (each.on_host) {
        memory_.emplace_back(each.tensor, &number_);
        continue;
      }
      const Buffer& buffer = buffers_.emplace_back(Device::kGpu, each.desc.bytes());
      memory_.emplace_back(each.tensor, buffer.data());
      patterns_.push_back(pattern_of(each));
    }
    fill();
  }

  void queue(Context& context, const ExecutionPlan& plan) const {
    plan.run(context, memory_, workspace_.data());
  }
  /// Whether two runs on the same values leave the same bits.
  bool repeats(Context& context, const ExecutionPlan& plan) const {
    return run(context, plan) == run(context, plan);
  }

 private:
  /// Values between 0.5 and 1, in an order that no sum leaves unnoticed.
  static std::vector<std::byte> pattern_of(const OperationGraph::Memory& memory) {
    constexpr size_t kPeriod = 65521;
    std::vector<std::byte> bytes;
    uint32_t state = 1;
    const auto add = [&](auto value) {
      const auto* const begin = reinterpret_cast<const std::byte*>(&value);
      bytes.insert(bytes.end(), begin, begin + sizeof value);
    };
    for (size_t i = 0; i < kPeriod && bytes.size() < memory.desc.bytes(); ++i) {
      state = state * 1664525 + 1013904223;
      const float value = 0.5f + static_cast<float>(state >> 9) / (1 << 24);
      if (memory.desc.dtype == DType::kBFloat16) {
        add(bfloat16(value));
      } else {
        add(value);
      }
    }
    return bytes;
  }

  void fill() const {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      const size_t bytes = buffers_[i].bytes();
      size_t done = std::min(bytes, patterns_[i].size());
      copy_bytes(buffers_[i].data(), Device::kGpu, patterns_[i].data(), Device::kCpu, done);
      while (done < bytes) {  // whole periods: the pattern goes on
        const size_t part = std::min(done, bytes - done);
        copy_bytes(buffers_[i].at(done), Device::kGpu, buffers_[i].data(), Device::kGpu, part);
        done += part;
      }
    }
  }

  std::vector<std::vector<std::byte>> run(Context& context, const ExecutionPlan& plan) const {
    fill();
    queue(context, plan);
    context.synchronize();
    std::vector<std::vector<std::byte>> all;
    for (const Buffer& buffer : buffers_) {
      // Atomics show anywhere in an output; large ones need not be brought over whole.
      constexpr size_t kMostCompared = size_t{8} << 20;
      all.push_back(download(buffer.data(), Device::kGpu, std::min(buffer.bytes(), kMostCompared)));
    }
    return all;
  }

  float number_ = 0.125f;
  std::vector<Buffer> buffers_;
  std::vector<std::vector<std::byte>> patterns_;
  std::vector<std::pair<OperationGraph::Tensor, void*>> memory_;
  const Buffer workspace_;
};

}  // namespace

std::string EngineConfiguration::to_string() const {
  std::string text = "engine " + std::to_string(engine);
  if (!knobs.empty()) text += ", knobs";
  for (const auto& [type, value] : knobs) {
    text += " " + std::to_string(type) + "=" + std::to_string(value);
  }
  return text;
}

TuningCache::Entry EngineConfiguration::to_entry() const {
  TuningCache::Entry entry = {{"engine", engine}};
  for (const auto& [type, value] : knobs) entry["knob_" + std::to_string(type)] = value;
  return entry;
}

std::optional<EngineConfiguration> EngineConfiguration::from_entry(
    const TuningCache::Entry& entry) {
  const auto engine = entry.find("engine");
  if (engine == entry.end()) return {};
  EngineConfiguration found = {.engine = engine->second, .knobs = {}};
  for (int64_t type = 0; type < CUDNN_KNOB_TYPE_COUNTS; ++type) {
    const auto knob = entry.find("knob_" + std::to_string(type));
    if (knob != entry.end()) found.knobs[type] = knob->second;
  }
  return found;
}

std::vector<EngineConfiguration> proposed_engines(Context& context, OperationGraph& graph,
                                                  const EngineLimits& limits) {
  std::vector<EngineConfiguration> all;
  for (const cudnnBackendHeurMode_t mode :
       {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_B, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      BackendDescriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
      heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get(context.cudnn()))
          .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode)
          .finalize();
      for (const BackendDescriptor& proposal : heuristics.descriptors(
               CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, kMostProposals)) {
        const auto found = duet::gpu::read(proposal, limits);
        if (found && std::find(all.begin(), all.end(), *found) == all.end()) all.push_back(*found);
      }
    } catch (const DeviceError&) {
      // No engine of this kind; the next heuristic may know one.
    }
  }
  // In fp32 the heuristics name engines that use tensor cores and leave out many that do not.
  for (int64_t number = 0; number < graph.engines(context.cudnn()); ++number) {
    const auto is_it = [&](const EngineConfiguration& one) { return one.engine == number; };
    if (std::any_of(all.begin(), all.end(), is_it)) continue;
    try {
      BackendDescriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
      engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.get(context.cudnn()))
          .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, number)
          .finalize();
      if (allowed(engine, limits)) all.push_back({.engine = number, .knobs = {}});
    } catch (const DeviceError&) {
      // Not for this graph.
    }
  }
  return all;
}

ExecutionPlan::ExecutionPlan(Context& context, OperationGraph& graph,
                             const EngineConfiguration& configuration)
    : configuration_(configuration), plan_(plan_of(context, graph, configuration)) {
  workspace_ = static_cast<size_t>(plan_.number(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
}

void ExecutionPlan::run(Context& context,
                        const std::vector<std::pair<OperationGraph::Tensor, void*>>& memory,
                        void* workspace) const {
  std::vector<int64_t> tensors;
  std::vector<void*> addresses;
  for (const auto& [tensor, address] : memory) {
    tensors.push_back(tensor);
    addresses.push_back(address);
  }
  BackendDescriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, tensors)
      .set_memory(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
      .set_memory(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, {workspace})
      .finalize();
  DUET_CUDNN(cudnnBackendExecute(context.cudnn(), plan_.get(), pack.get()));
}

TuningCache& plan_cache() {
  static TuningCache cache(TuningCache::path_of("cudnn_plans.json"));
  return cache;
}

std::string plan_key(const std::string& what, const Context& context) {
  return what + " | plan of the graph API | " + gpu_name() + " | cuDNN " +
         std::to_string(cudnnGetVersion()) + " | workspace " +
         std::to_string(context.workspace_limit());
}

std::optional<ExecutionPlan> recalled_plan(Context& context, OperationGraph& graph,
                                           const TuningCache::Entry& entry) {
  const auto configuration = EngineConfiguration::from_entry(entry);
  if (!configuration) return {};
  try {
    ExecutionPlan plan(context, graph, *configuration);
    if (plan.workspace_bytes() <= context.workspace_limit()) return plan;
  } catch (const DeviceError&) {
    // Of another version.
  }
  return {};
}

std::vector<TimedPlan> plans_for(Context& context, OperationGraph& graph,
                                 const EngineLimits& limits) {
  std::vector<TimedPlan> plans;
  try {
    for (const EngineConfiguration& each : proposed_engines(context, graph, limits)) {
      if (plans.size() == limits.most) break;
      try {
        ExecutionPlan plan(context, graph, each);
        if (plan.workspace_bytes() > context.workspace_limit()) continue;
        plans.push_back({std::move(plan)});
      } catch (const DeviceError&) {
        // A proposal may still refuse; the next one is tried.
      }
    }
  } catch (const DeviceError&) {
    // Not a graph that cuDNN knows.
  }
  return plans;
}

std::optional<TimedPlan> fastest_plan(Context& context, std::vector<TimedPlan> plans,
                                      const std::function<void(const ExecutionPlan&)>& queue,
                                      const std::function<bool(const ExecutionPlan&)>& right,
                                      double limit) {
  double fastest = limit;
  for (TimedPlan& each : plans) {
    constexpr double kHopeless = 1.5;
    try {
      each.microseconds = microseconds_in_graph(
          context, [&] { queue(each.plan); }, kHopeless * fastest);
    } catch (const DeviceError&) {
      continue;  // it has no time
    }
    fastest = std::min(fastest, each.microseconds);
  }
  context.synchronize();  // throws if the GPU itself has failed
  std::stable_sort(plans.begin(), plans.end(), [](const TimedPlan& a, const TimedPlan& b) {
    return a.microseconds < b.microseconds;
  });
  for (TimedPlan& each : plans) {
    if (!(each.microseconds < limit)) break;
    if (right(each.plan)) return std::move(each);
  }
  return {};
}

void PlannedGraph::prepare(Context& context, const std::string& what, const EngineLimits& limits) {
  const std::string key = plan_key(what, context);
  if (const auto entry = plan_cache().find(key)) {
    plan_ = recalled_plan(context, graph, *entry);
    if (plan_) return;
  }
  std::vector<TimedPlan> plans = plans_for(context, graph, limits);
  size_t workspace = 0;
  for (const TimedPlan& each : plans) {
    workspace = std::max(workspace, each.plan.workspace_bytes());
  }
  const size_t count = plans.size();
  if (count > 0) {
    const Trial trial(graph, workspace);
    auto found = fastest_plan(
        context, std::move(plans), [&](const ExecutionPlan& plan) { trial.queue(context, plan); },
        [&](const ExecutionPlan& plan) { return trial.repeats(context, plan); });
    if (found) {
      plan_ = std::move(found->plan);
      plan_cache().insert(key, plan_->configuration().to_entry());
      return;
    }
  }
  throw UnsupportedError(what + ": none of the " + std::to_string(count) +
                         " plans that cuDNN's graph API has is repeatable and needs at most " +
                         std::to_string(context.workspace_limit() >> 20) + " MiB of workspace");
}

}  // namespace duet::gpu
