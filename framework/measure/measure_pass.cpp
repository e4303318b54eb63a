#include "measure/measure_pass.h"

#include <algorithm>
#include <memory>

#include "core/error.h"
#include "device/cache_flush.h"
#include "device/step_graph.h"
#include "device/stopwatch.h"

namespace duet {
namespace {

constexpr double kGraphSeconds = 1e-3;  // calls fill a graph to about that
constexpr int kMostInGraph = 200;
constexpr int kColdInGraph = 10;
constexpr size_t kMostRotated = 4;

size_t footprint(const Layer& layer) {
  size_t bytes = 0;
  for (const auto* tensors : {&layer.inputs(), &layer.outputs()}) {
    for (const TensorDesc& tensor : *tensors) bytes += 2 * tensor.bytes();
  }
  for (const ParameterSpec& p : layer.parameters()) bytes += 2 * p.desc.bytes();
  return std::max<size_t>(bytes, 1);
}

/// A candidate that passed, in several sets of buffers that take turns as long as all of them fit
/// into half of the cache: a call finds its inputs near, but never in the registers' or L1's reach,
/// and never where the last call left them.
class Runner {
 public:
  Runner(const Candidate& candidate, Pass pass, const Evidence& evidence, Context& context)
      : context_(context), pass_(pass), evidence_(evidence) {
    const size_t cache = context.device() == Device::kGpu ? l2_bytes() : size_t{1} << 20;
    const size_t copies =
        std::clamp<size_t>(cache / 2 / footprint(*candidate.layer), 1, kMostRotated);
    const auto passes = passes_through(*candidate.layer, candidate.id, pass);
    for (size_t i = 0; i < copies; ++i) {
      rigs_.push_back(std::make_unique<LayerRig>(*candidate.layer, candidate.id, passes, context,
                                                 evidence.situation));
      rigs_.back()->load(evidence.data);
      run_through(*rigs_.back(), pass, evidence.expected);
      rigs_.back()->queue_poison(pass);  // what is there after timing was written while timing
      context.synchronize();
    }
  }

  void queue() {
    rigs_[next_]->queue(pass_);
    next_ = (next_ + 1) % rigs_.size();
  }

  /// One launch of the graph is calls_in_graph() calls.
  void capture() {
    if (context_.device() == Device::kCpu) return;
    StepGraph once(context_, [&] { queue(); });
    seconds_of(
        context_, [&] { once.launch(); }, 1);
    const double seconds = seconds_of(
                               context_, [&] { once.launch(); }, 3) /
                           3;
    const auto turns = static_cast<int>(rigs_.size());
    calls_ = std::clamp(static_cast<int>(kGraphSeconds / seconds), 1, kMostInGraph);
    calls_ = (calls_ + turns - 1) / turns * turns;
    graph_ = StepGraph(context_, [&] {
      for (int i = 0; i < calls_; ++i) queue();
    });
  }
  Contender contender() {
    return {[this](int64_t calls) {
      return seconds_of(
          context_, [this] { graph_ ? graph_.launch() : queue(); }, calls);
    }};
  }
  int calls_in_graph() const { return calls_; }

  std::vector<TensorResult> hold() {
    context_.synchronize();
    for (const auto& rig : rigs_) {
      auto results = hold_to(evidence_.expected, *rig, pass_);
      if (!all_agree(results)) return results;
    }
    return {};
  }

 private:
  Context& context_;
  const Pass pass_;
  const Evidence& evidence_;
  std::vector<std::unique_ptr<LayerRig>> rigs_;
  size_t next_ = 0;
  int calls_ = 1;
  StepGraph graph_;
};

void divide(Times& times, double by) {
  for (double& seconds : times.seconds) seconds /= by;
}

// Times with the cache flushed before each call: those of flush and call, less those of the flush.
void time_cold(std::vector<Runner*>& runners, std::vector<PassMeasurement*>& results,
               Context& context, const TimingPlan& plan) {
  CacheFlush flush(context);
  flush.queue();
  context.synchronize();
  std::vector<StepGraph> graphs;
  const auto add = [&](const std::function<void()>& call) {
    graphs.emplace_back(context, [&] {
      for (int i = 0; i < kColdInGraph; ++i) {
        flush.queue();
        call();
      }
    });
  };
  for (Runner* runner : runners) add([&] { runner->queue(); });
  add([] {});
  std::vector<Contender> contenders;
  for (StepGraph& graph : graphs) {
    contenders.push_back({[&](int64_t calls) {
      return seconds_of(
          context, [&] { graph.launch(); }, calls);
    }});
  }
  std::vector<Times> times = time_interleaved(contenders, plan);
  for (size_t i = 0; i < runners.size(); ++i) {
    for (size_t round = 0; round < times[i].seconds.size(); ++round) {
      times[i].seconds[round] -= times.back().seconds[round];
    }
    divide(times[i], kColdInGraph);
    results[i]->cold = std::move(times[i]);
  }
}

}  // namespace

double least_bytes(const Layer& layer) {
  double x = 0, y = 0, w = 0;
  for (const TensorDesc& tensor : layer.inputs()) x += static_cast<double>(tensor.bytes());
  for (const TensorDesc& tensor : layer.outputs()) y += static_cast<double>(tensor.bytes());
  for (const ParameterSpec& p : layer.parameters()) w += static_cast<double>(p.desc.bytes());
  return x + y + w;  // the same for every pass: x w -> y, dy w -> dx, x dy -> dw, dy -> dx
}

std::vector<PassMeasurement> measure_pass(const std::vector<Candidate>& candidates, Pass pass,
                                          const Evidence& evidence, Context& context,
                                          const PassPlan& plan) {
  std::vector<PassMeasurement> results(candidates.size());
  std::vector<std::unique_ptr<Evidence>> turned;  // for other layouts
  std::vector<std::unique_ptr<Runner>> owned;
  std::vector<Runner*> runners;
  std::vector<PassMeasurement*> timed;
  const Layer& first = *candidates.front().layer;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const Evidence* own = &evidence;
    if (!same_layouts(*candidate.layer, first)) {
      turned.push_back(std::make_unique<Evidence>(relayout(evidence, first, *candidate.layer)));
      own = turned.back().get();
    }
    PassMeasurement& result = results[i];
    const double start = now_seconds();
    try {
      auto implementation = candidate.layer->make(candidate.id, context);
      for (Pass each : passes_through(*candidate.layer, candidate.id, pass)) {
        implementation->prepare(each, context);
      }
      result.prepare_seconds = now_seconds() - start;
      result.detail = implementation->detail(pass);
      result.workspace_bytes = implementation->workspace_bytes(pass);
      result.examination = examine(*candidate.layer, candidate.id, pass, *own, context);
      if (!result.examination.passed()) continue;
      owned.push_back(std::make_unique<Runner>(candidate, pass, *own, context));
      owned.back()->capture();
    } catch (const Error& e) {
      result.examination.faults.push_back({FaultKind::kFailed, std::string("failed: ") + e.what()});
      continue;
    }
    runners.push_back(owned.back().get());
    timed.push_back(&result);
  }
  if (runners.empty()) return results;

  std::vector<Contender> contenders;
  for (Runner* runner : runners) contenders.push_back(runner->contender());
  std::vector<Times> times = time_interleaved(contenders, plan.timing);
  for (size_t i = 0; i < runners.size(); ++i) {
    divide(times[i], runners[i]->calls_in_graph());
    timed[i]->warm = std::move(times[i]);
  }
  if (plan.cold && context.device() == Device::kGpu) {
    time_cold(runners, timed, context, plan.timing);
  }
  for (size_t i = 0; i < runners.size(); ++i) {
    const auto wrong = runners[i]->hold();
    if (wrong.empty()) continue;
    timed[i]->examination.faults.push_back(
        {FaultKind::kWrongWhenTimed,
         "is right when examined and wrong after the timed runs: no time is given"});
    timed[i]->warm.reset();
    timed[i]->cold.reset();
  }
  return results;
}

}  // namespace duet
