#include "measure/time/measure_pass.h"

#include <algorithm>
#include <map>
#include <memory>

#include "core/error.h"
#include "core/number_text.h"
#include "core/running.h"
#include "device/cache_flush.h"
#include "device/step_graph.h"
#include "device/stopwatch.h"
#include "measure/examine/changing_calls.h"
#include "measure/examine/process_state.h"

namespace duet {
namespace {

constexpr int kMostMeasuredInGraph = 200;
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

// The L2 cache of the GPU, or about that of a CPU's core.
size_t cache_bytes(const Context& context) {
  return context.device() == Device::kGpu ? l2_bytes() : size_t{1} << 20;
}

size_t copies_of(const Layer& layer, const Context& context) {
  return std::clamp<size_t>(cache_bytes(context) / 2 / footprint(layer), 1, kMostRotated);
}

std::unique_ptr<BoundOp> made_ready(const Candidate& candidate, Pass pass, Context& context) {
  auto op = std::make_unique<BoundOp>(*candidate.layer, candidate.id, context);
  op->prepare(passes_through(*candidate.layer, candidate.id, pass));
  return op;
}

/// A candidate that passed, in several sets of buffers that take turns as long as all of them fit
/// into half of the cache: a call finds its inputs near, but never in the registers' or L1's reach,
/// and never where the last call left them.
class Runner {
 public:
  Runner(const Candidate& candidate, Pass pass, const LayerSituation& situation,
         const CheckSets& sets, Context& context)
      : context_(context),
        candidate_(candidate),
        pass_(pass),
        sets_(sets),
        code_(candidate.id + " of " + task_text(*candidate.layer)) {
    const size_t copies = copies_of(*candidate.layer, context);
    const auto passes = passes_through(*candidate.layer, candidate.id, pass);
    for (size_t i = 0; i < copies; ++i) {
      rigs_.push_back(
          std::make_unique<LayerRig>(*candidate.layer, candidate.id, passes, context, situation));
      LayerRig& rig = *rigs_.back();
      rig.load(sets.first.data());
      queue_through(rig, sets.first);
      context.synchronize();
      rig.watch(pass);
      rig.queue_poison(pass);  // what is there after timing was written while timing
    }
    if (context.device() == Device::kCpu) return;
    for (const auto& rig : rigs_) {
      calls_.emplace_back(context, [&] { rig->queue(pass); });
    }
  }

  /// On a GPU: `count` calls, each a copy of one that fault() looks at, so that none can do less;
  /// before each what `before` captured.
  StepGraph graph(int count, const StepGraph* before = nullptr) const {
    std::vector<const StepGraph*> parts;
    for (int i = 0; i < count; ++i) {
      if (before) parts.push_back(before);
      parts.push_back(&calls_[static_cast<size_t>(i) % calls_.size()]);
    }
    return StepGraph(context_, parts);
  }

  /// One call of the workload is calls_in_graph() calls: on a GPU a graph of `calls`, or if that
  /// is 0 of about a millisecond's.
  void capture(int calls) {
    if (context_.device() == Device::kCpu) return;
    in_graph_ = calls > 0 ? calls : calls_of_a_graph();
    graph_ = graph(in_graph_);
  }
  Workload workload() {
    return {[this](int64_t calls) {
              if (!graph_) return changing_.seconds([this] { queue(); }, queued_, calls);
              const Running running(candidate_.id, candidate_.layer->type(), to_string(pass_));
              return seconds_of(
                  context_, [this] { graph_.launch(); }, calls);
            },
            code_};
  }
  int calls_in_graph() const { return in_graph_; }

  /// What is the matter after it was timed, if anything is: on the data that it was timed on, and
  /// then on others. Not `thoroughly`: one set of outputs is looked at. REQUIRES: it is not timed
  /// any more.
  std::optional<Fault> fault(bool thoroughly) {
    const bool counts = thoroughly && calls_.empty() && sets_.other;
    while (counts && queued_ < kLeastCalls * rigs_.size()) queue();
    context_.synchronize();
    if (!all_hold(sets_.first, thoroughly ? called() : 1, true)) {
      return Fault{FaultKind::kWrongWhenTimed,
                   "is right when examined and wrong after the timed runs: no time is given"};
    }
    if (auto remembers = changing_.fault()) return remembers;
    if (!thoroughly) return {};
    std::string damage;
    for (const auto& rig : rigs_) damage += rig->damage();
    if (!damage.empty()) {
      return Fault{
          FaultKind::kWrongWhenTimed,
          "leaves its surroundings alone when examined and damages them while it is timed: "
          "no time is given\n" +
              damage};
    }
    if (!sets_.other) return {};
    for (const auto& rig : rigs_) {
      rig->renew(sets_.other->data());
      queue_through(*rig, *sets_.other);
      rig->queue_poison(pass_);
    }
    for (size_t i = 0; i < rigs_.size(); ++i) calls_.empty() ? queue() : calls_[i].launch();
    context_.synchronize();
    if (all_hold(*sets_.other, rigs_.size(), false)) return {};
    return Fault{
        FaultKind::kWrongWhenTimed,
        "is right when examined, but has stopped computing by the end of the timed runs: it "
        "is wrong for new data in the same buffers, and no time is given"};
  }

 private:
  void queue() { rigs_[queued_++ % rigs_.size()]->queue(pass_); }

  // Of the sets; on the CPU a long call may not have taken all turns.
  size_t called() const { return calls_.empty() ? std::min(queued_, rigs_.size()) : rigs_.size(); }

  // Those of the first `calls` calls. `repeated`: without the buffers that forward updates, which
  // every call has changed.
  bool all_hold(const CheckSet& set, size_t calls, bool repeated) const {
    return std::all_of(rigs_.begin(), rigs_.begin() + calls, [&](const auto& rig) {
      auto results = hold_to(set, *rig);
      if (repeated && pass_ == Pass::kForward) {
        const auto outputs = static_cast<std::ptrdiff_t>(rig->layer().outputs().size());
        results.erase(results.begin() + outputs, results.end());
      }
      return all_agree(results);
    });
  }

  int calls_of_a_graph() {
    StepGraph once = graph(1);
    once.launch();
    const int calls = duet::calls_in_graph(context_, once, kMostMeasuredInGraph);
    const auto turns = static_cast<int>(rigs_.size());
    return (calls + turns - 1) / turns * turns;
  }

  Context& context_;
  const Candidate& candidate_;
  const Pass pass_;
  const CheckSets& sets_;
  const std::string code_;
  std::vector<std::unique_ptr<LayerRig>> rigs_;
  ChangingCalls changing_{rigs_, pass_};  // on the CPU
  std::vector<StepGraph> calls_;          // on a GPU: one of each rig
  size_t queued_ = 0;                     // on the CPU
  int in_graph_ = 1;
  StepGraph graph_;
};

/// Of a candidate that is ready: of two instances while it is examined, of all copies while it is
/// timed, beside what others take then. Throws OutOfMemoryError if that is more than there is room.
double workspaces_beside(double others, const Candidate& candidate, const BoundOp& ready, Pass pass,
                         const Context& context, double room) {
  double each = 0;
  for (Pass before : passes_through(*candidate.layer, candidate.id, pass)) {
    each += static_cast<double>(ready.workspace_bytes(before));
  }
  const double timed = others + each * static_cast<double>(copies_of(*candidate.layer, context));
  if (std::max(2 * each, timed) <= room) return timed;
  throw OutOfMemoryError(
      printed("takes a workspace of %.4g MiB, several at a time beside %.4g MiB of others, and "
              "there is room for %.4g MiB; name fewer implementations, or choose a smaller batch",
              each / (1 << 20), others / (1 << 20), std::max(room, 0.0) / (1 << 20)));
}

/// A candidate that is right, while it is timed.
struct Entry {
  const Candidate* candidate;
  const CheckData* check_data;
  PassMeasurement* result;
  std::unique_ptr<BoundOp>
      ready;  // what it keeps for all instances that live need not be made once
              // more for those that are timed
  std::unique_ptr<Runner> runner;  // none if it failed
  int calls_in_graph = 0;
};

// REQUIRES: called in a catch block. What text_of_failure() lets pass goes on.
void fail(PassMeasurement& result, const Candidate& candidate, const Context& context) {
  result.examination.faults.push_back(
      {FaultKind::kFailed, text_of_failure(candidate.id, context.device())});
}

/// Times the entries side by side, warm and cold. Where they are small enough to stay in a cache,
/// every round is of new instances.
class PassTimer {
 public:
  PassTimer(std::vector<Entry>& entries, Pass pass, Context& context, const PassPlan& plan)
      : entries_(entries),
        pass_(pass),
        context_(context),
        plan_(plan),
        displacement_(context.device()) {
    anew_ =
        plan.checks && plan.anew && footprint(*entries[0].candidate->layer) <= cache_bytes(context);
    if (plan.cold && context.device() == Device::kGpu) flush_.emplace(context);
  }

  void time() {
    const auto make = [this](int round) {
      if (plan_.before_round) plan_.before_round();
      if (round < 0 || anew_) make_runners(round % 2 != 0);
      return groups();
    };
    auto times = time_anew(make, plan_.timing);
    hold(true);
    for (size_t i = 0; i < entries_.size(); ++i) {
      const Entry& entry = entries_[i];
      if (!entry.runner) continue;
      entry.result->warm = per_call(std::move(times[0][i]), entry.runner->calls_in_graph());
      if (!flush_) continue;
      // Those of flush and call, less those of the flush.
      const Times& flush = times[1].back();
      for (size_t round = 0; round < flush.seconds.size(); ++round) {
        times[1][i].seconds[round] -= flush.seconds[round];
      }
      entry.result->cold = per_call(std::move(times[1][i]), kColdInGraph);
    }
  }

 private:
  static Times per_call(Times times, int calls) {
    for (double& seconds : times.seconds) seconds /= calls;
    return times;
  }

  // Who was not right to the end loses its times. All instances do the same, so that looking at the
  // last ones is enough, beside a glance at each.
  void hold(bool thoroughly) {
    for (Entry& entry : entries_) {
      if (!entry.runner) continue;
      try {
        auto fault = entry.runner->fault(thoroughly);
        if (!fault) continue;
        entry.result->examination.faults.push_back(std::move(*fault));
      } catch (...) {
        fail(*entry.result, *entry.candidate, context_);
      }
      entry.runner.reset();
    }
  }

  void make_runners(bool backwards) {
    hold(false);
    cold_.clear();
    for (Entry& entry : entries_) entry.runner.reset();
    displacement_.grow();
    for (size_t k = 0; k < entries_.size(); ++k) {
      Entry& entry = entries_[backwards ? entries_.size() - 1 - k : k];
      if (!entry.result->examination.passed()) continue;  // it failed in a round before
      try {
        entry.runner = std::make_unique<Runner>(
            *entry.candidate, pass_, entry.check_data->situation, sets_of(entry), context_);
        entry.runner->capture(entry.calls_in_graph);
        entry.calls_in_graph = entry.runner->calls_in_graph();
      } catch (...) {
        fail(*entry.result, *entry.candidate, context_);
        entry.runner.reset();
      }
    }
  }

  // Made once for all candidates of the same layouts and types.
  const CheckSets& sets_of(const Entry& entry) {
    auto& sets = sets_[{entry.check_data, task_text(*entry.candidate->layer)}];
    if (!sets) {
      sets = std::make_unique<CheckSets>(*entry.candidate->layer, pass_, *entry.check_data,
                                         context_.device());
    }
    return *sets;
  }

  std::vector<std::vector<Workload>> groups() {
    std::vector<Workload> warm;
    for (Entry& entry : entries_) {
      warm.push_back(entry.runner ? entry.runner->workload() : Workload{});
    }
    if (!flush_) return {warm};
    if (cold_.empty()) capture_cold();
    std::vector<Workload> cold;
    for (StepGraph& graph : cold_) {
      cold.push_back(graph ? Workload::of(context_, [&graph] { graph.launch(); }) : Workload{});
    }
    return {warm, cold};
  }

  // One for each entry, and of the flush alone.
  void capture_cold() {
    flush_->queue();
    context_.synchronize();
    const StepGraph flush(context_, [&] { flush_->queue(); });
    for (const Entry& entry : entries_) {
      cold_.push_back(entry.runner ? entry.runner->graph(kColdInGraph, &flush) : StepGraph());
    }
    cold_.emplace_back(context_, std::vector<const StepGraph*>(kColdInGraph, &flush));
  }

  std::vector<Entry>& entries_;
  const Pass pass_;
  Context& context_;
  const PassPlan& plan_;
  std::map<std::pair<const CheckData*, std::string>, std::unique_ptr<CheckSets>> sets_;
  bool anew_ = false;
  Displacement displacement_;
  std::optional<CacheFlush> flush_;
  std::vector<StepGraph> cold_;
};

}  // namespace

std::string task_text(const Layer& layer) {
  std::string text = layer.problem_text();
  for (const TensorDesc& x : layer.inputs()) text += " " + x.to_string();
  for (const TensorDesc& y : layer.outputs()) text += " " + y.to_string();
  return text + " " + std::string(to_string(layer.options().math));
}

std::vector<PassMeasurement> measure_pass(const std::vector<Candidate>& candidates, Pass pass,
                                          const CheckData& check_data, Context& context,
                                          const PassPlan& plan) {
  std::vector<PassMeasurement> results(candidates.size());
  std::vector<std::unique_ptr<CheckData>> made;  // in other layouts, or of a candidate
  std::vector<Entry> entries;
  const Layer& first = *candidates.front().layer;
  double workspaces = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (plan.before_round) plan.before_round();
    const Candidate& candidate = candidates[i];
    const CheckData* own = &check_data;
    if (!same_layouts(*candidate.layer, first)) {
      made.push_back(std::make_unique<CheckData>(relayout(check_data, first, *candidate.layer)));
      own = made.back().get();
    }
    PassMeasurement& result = results[i];
    const Elapsed watch;
    try {
      auto op = made_ready(candidate, pass, context);
      result.prepare_seconds = watch.seconds();
      result.detail = op->detail(pass);
      const double taken =
          workspaces_beside(workspaces, candidate, *op, pass, context, plan.workspace_room);
      result.workspace_bytes = op->workspace_bytes(pass);
      if (plan.checks) {
        const Elapsed examining;
        result.examination =
            check(*candidate.layer, candidate.id, pass, *own, context, candidate.level);
        result.examine_seconds = examining.seconds();
      } else {
        made.push_back(std::make_unique<CheckData>(
            make_own_check_data(*candidate.layer, candidate.id, pass, *own, context)));
        own = made.back().get();
      }
      if (result.examination.passed()) {
        workspaces = taken;
        entries.push_back({&candidate, own, &result, std::move(op), {}});
      }
    } catch (...) {
      fail(result, candidate, context);
    }
    if (plan.child && result.examination.spoils_process) {
      throw UnusableProcessError(candidate.id + " " + result.examination.faults.back().text);
    }
  }
  if (entries.empty() || !plan.times) return results;

  PassTimer(entries, pass, context, plan).time();
  return results;
}

}  // namespace duet
