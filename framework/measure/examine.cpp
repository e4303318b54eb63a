#include "measure/examine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <thread>

#include "core/error.h"
#include "core/interrupt.h"
#include "device/fresh_memory.h"
#include "device/step_graph.h"
#include "measure/classify.h"
#include "measure/compare_memory.h"
#include "measure/examine_checks.h"
#include "measure/process_state.h"
#include "measure/repeat_work.h"

namespace duet {
namespace {

constexpr uint64_t kOtherSeed = 99;
constexpr double kDelaySeconds = 2e-3;  // queued before a run that might not wait for it
constexpr int kRepetitions = 3;

// Of this process.
size_t thread_count() {
  std::error_code error;
  size_t count = 0;
  for (std::filesystem::directory_iterator at("/proc/self/task", error), end; at != end;
       at.increment(error)) {
    ++count;
  }
  return count;
}

class Examiner {
 public:
  Examiner(const Layer& layer, std::string_view id, Pass pass, const CheckData& check_data,
           const CheckSets& sets, Context& context)
      : layer_(layer),
        id_(id),
        pass_(pass),
        check_data_(check_data),
        sets_(sets),
        context_(context),
        rig_(layer, id, passes_through(layer, id, pass), context, check_data.situation,
             GuardedBuffer::kWideGuardBytes) {}

  Examination run() {
    check_data();
    check_timeliness();
    if (result_.passed()) check_graph();
    const ExamineSubject subject = {layer_, id_, pass_, check_data_, sets_, context_};
    if (result_.passed()) add(find_shape_bound(subject));
    if (result_.passed()) add(find_data_bound(subject));
    if (result_.passed()) add(find_shared_state(subject, rig_));
    if (result_.passed()) add(find_memory_taken(subject));
    if (result_.passed()) {
      RepeatedCalls calls = examine_repeats(subject, rig_);
      result_.replayed = calls.replayed;
      add(std::move(calls.fault));
    }
    return std::move(result_);
  }

 private:
  /// One run on loaded data: what came out, and the damage done.
  struct Round {
    std::vector<TensorResult> tensors;
    std::vector<NamedValues> outputs;  // where they do not agree
    std::vector<Buffer> snapshot;
    bool agrees = false;
  };

  Round round(const CheckSet& set) {
    rig_.reset();
    queue_fill_shared_memory(context_);
    run_through(rig_, set);
    check_damage();
    Round round;
    round.tensors = hold_to(set, rig_);
    round.agrees = all_agree(round.tensors);
    round.snapshot = snapshot();
    if (!round.agrees) round.outputs = rig_.outputs(pass_);
    return round;
  }

  void check_damage() {
    if (damaged_) return;
    const std::string workspace = rig_.workspace_damage(), inputs = rig_.input_damage(),
                      buffers = rig_.buffer_damage();
    if (!workspace.empty()) {
      add(FaultKind::kWorkspaceOverrun,
          "takes more workspace than it asked for (" +
              std::to_string(rig_.implementation().workspace_bytes(pass_)) + " bytes for " +
              std::string(to_string(pass_)) + "):\n" + workspace);
    }
    if (!inputs.empty()) add(FaultKind::kChangesInput, "changes what it may only read:\n" + inputs);
    if (!buffers.empty()) add(FaultKind::kOverrun, "writes outside its buffers:\n" + buffers);
    damaged_ = !result_.passed();
  }

  void check_data() {
    rig_.load(sets_.first.data());
    std::vector<Round> same;
    for (int i = 0; i < kRepetitions; ++i) same.push_back(round(sets_.first));
    result_.tensors = same[0].tensors;
    rig_.load(sets_.other.data());
    const Round other = round(sets_.other);
    const Round again = round(sets_.other);
    rig_.renew(sets_.first.data());
    queue_through(rig_, sets_.first);
    context_.synchronize();
    const bool renewed = all_agree(hold_to(sets_.first, rig_));

    // The most telling finding first; those that follow from it are left out.
    if (is_stale(other, same.back())) {
      if (again.agrees) {
        add(FaultKind::kPreviousOutput,
            "returns the previous call's output: new data in the same buffers gave the old result, "
            "and the right one a call later");
      } else {
        add(FaultKind::kCached,
            "returns the result of earlier data although the same buffers hold new data: it caches "
            "by pointer, or never reads its inputs again");
      }
    } else if (!same[0].agrees) {
      add_disagreement(same[0], sets_.first, "");
    } else if (!same[1].agrees || !same[2].agrees) {
      const Round& wrong = same[1].agrees ? same[2] : same[1];
      add(FaultKind::kFirstTimeOnly,
          "is right only the first time: a repeated run on the same data " +
              classify(wrong.tensors, wrong.outputs, sets_.first.outputs()).text);
    } else if (!other.agrees) {
      add_disagreement(other, sets_.other, "with other data: ");
    } else if (!renewed) {
      add(FaultKind::kCached,
          "is wrong where its output, its state or its workspace still hold what earlier data left "
          "there: it takes that for its result");
    } else if (!same_bits(same[0], same[1]) || !same_bits(same[0], same[2]) ||
               !same_bits(other, again)) {
      add(FaultKind::kUnrepeatable,
          "is not deterministic: two runs on the same data differ in some bits");
    }
  }

  /// Whether what is wrong in `round` is, to the bit, what was right for the data before.
  bool is_stale(const Round& round, const Round& before) const {
    if (round.agrees) return false;
    for (size_t i = 0; i < round.tensors.size(); ++i) {
      if (round.tensors[i].agreement.agrees) continue;
      if (!before.tensors[i].agreement.agrees || !same_bits(round, before, i)) return false;
    }
    return true;
  }

  bool same_bits(const Round& a, const Round& b, size_t output) const {
    const Buffer &p = a.snapshot[output], &q = b.snapshot[output];
    return same_bytes(p.data(), q.data(), p.bytes(), context_);
  }
  bool same_bits(const Round& a, const Round& b) const {
    for (size_t i = 0; i < a.snapshot.size(); ++i) {
      if (!same_bits(a, b, i)) return false;
    }
    return true;
  }

  std::vector<Buffer> snapshot() const {
    std::vector<Buffer> snapshot = rig_.make_snapshot(pass_);
    rig_.queue_snapshot(pass_, snapshot);
    context_.synchronize();
    return snapshot;
  }

  void add_disagreement(const Round& round, const CheckSet& set, const std::string& prefix) {
    Fault fault = classify(round.tensors, round.outputs, set.outputs());
    fault.text = prefix + fault.text;
    result_.faults.push_back(std::move(fault));
  }

  /// What the stream says is done must be done, and must have waited for what came before it.
  void check_timeliness() {
    rig_.load(sets_.first.data());
    run_through(rig_, sets_.first);
    const std::vector<Buffer> when_done = rig_.make_snapshot(pass_);
    context_.queue_delay(kDelaySeconds);
    rig_.queue_poison(pass_);
    rig_.queue(pass_);
    rig_.queue_snapshot(pass_, when_done);
    context_.synchronize();
    if (context_.device() == Device::kCpu && !result_.passed()) wait_for_threads();
    const bool changed = !rig_.holds(pass_, when_done);
    const bool unrepeatable =
        !result_.passed() && result_.faults.front().kind == FaultKind::kUnrepeatable;
    const bool there = all_agree(hold_to(sets_.first, rig_));
    std::string what;
    if (changed && !unrepeatable) {
      what = context_.device() == Device::kGpu
                 ? "returns early: its stream was done before its output was there; it runs on "
                   "another stream"
                 : "returns early: its output was written after run() had returned";
    } else if (result_.passed() && !there) {
      what =
          "returns early: it did not wait for the work queued before it, which then overwrote its "
          "output; it does not run on its stream";
    } else if (misses_output() && there) {
      what =
          "returns early: its output is there when the whole device has been waited for, and not "
          "before; it does not run on its stream";
    }
    if (what.empty()) return;
    result_.faults.clear();  // whatever else was found is a consequence
    add(FaultKind::kReturnsEarly, what);
  }

  /// For those that a run has left behind: a busy machine may hold them back for long.
  void wait_for_threads() const {
    using namespace std::chrono_literals;
    std::this_thread::sleep_for(50ms);
    for (int i = 0; i < 100 && thread_count() > threads_; ++i) std::this_thread::sleep_for(10ms);
  }

  /// Something was found that waiting longer might mend.
  bool misses_output() const {
    return std::any_of(result_.faults.begin(), result_.faults.end(), [](const Fault& fault) {
      return fault.kind == FaultKind::kUnwritten || fault.kind == FaultKind::kHalfWritten ||
             fault.kind == FaultKind::kNotFinite;
    });
  }

  void check_graph() {
    if (context_.device() == Device::kCpu) return;
    rig_.reset();
    run_through(rig_, sets_.first);
    std::optional<StepGraph> graph;
    try {
      graph.emplace(context_, [&] { rig_.queue(pass_); });
    } catch (const Error& e) {
      return add(FaultKind::kNotInGraph, std::string("cannot be captured in a graph: ") + e.what());
    }
    for (int replay = 0; replay < 2; ++replay) {
      rig_.queue_poison(pass_);
      graph->launch();
      context_.synchronize();
      if (!all_agree(hold_to(sets_.first, rig_))) {
        return add(FaultKind::kNotInGraph,
                   "is wrong when replayed from a captured graph, as training runs it");
      }
    }
    check_damage();
  }

  void add(std::optional<Fault> fault) {
    if (fault) result_.faults.push_back(std::move(*fault));
  }
  void add(FaultKind kind, std::string text) { result_.faults.push_back({kind, std::move(text)}); }

  const Layer& layer_;
  const std::string id_;
  const Pass pass_;
  const CheckData& check_data_;
  const CheckSets& sets_;
  Context& context_;
  LayerRig rig_;
  const size_t threads_ = thread_count();  // before it ran
  Examination result_;
  bool damaged_ = false;
};

/// Of "y[0]", "dx[1]" or "dw[0] weight".
Layout layout_of(const std::string& name, const Layer& layer) {
  const size_t bracket = name.find('[');
  if (bracket == std::string::npos) return Layout::kNCHW;  // a vector
  const size_t index = std::stoul(name.substr(bracket + 1));
  const std::string kind = name.substr(0, bracket);
  if (kind == "y") return layer.outputs().at(index).layout;
  if (kind == "dx") return layer.inputs().at(index).layout;
  return layer.parameters().at(index).desc.layout;
}

}  // namespace

std::vector<Pass> passes_through(const Layer& layer, std::string_view id, Pass pass) {
  std::vector<Pass> passes = passes_before(layer, pass);
  std::erase_if(passes, [&](Pass before) { return layer.unsupported(id, before).has_value(); });
  passes.push_back(pass);
  return passes;
}

namespace {

std::vector<Pass> start_through(LayerRig& rig, const CheckSet& set) {
  auto passes = passes_through(rig.layer(), rig.id(), set.pass());
  if (passes.front() != Pass::kForward) rig.set_y(set.y());
  return passes;
}

}  // namespace

void run_through(LayerRig& rig, const CheckSet& set) {
  for (Pass each : start_through(rig, set)) {
    run_interruptibly([&] { rig.run(each); });
  }
}

void queue_through(LayerRig& rig, const CheckSet& set) {
  for (Pass each : start_through(rig, set)) rig.queue(each);
}

std::vector<TensorResult> hold_to(const CheckSet& set, LayerRig& rig) {
  InterruptGuard::check();  // comparing large tensors takes a while, too
  std::vector<TensorResult> results;
  const Layer& layer = rig.layer();
  const auto found = rig.written_by(set.pass());
  for (size_t i = 0; i < found.size(); ++i) {
    const NamedValues& output = set.outputs().at(i);
    const Limit limit =
        limit_of(layer, set.pass(), found[i].desc, output.parameter, layer.options().math);
    const ExpectedValues& expected = set.expected(i);
    const ComparisonSums sums = comparison_sums(expected, found[i], limit, rig.context());
    results.push_back(
        {output.name, found[i].desc, agreement_of(sums, expected.sums, limit), limit});
  }
  return results;
}

TensorResult hold_to(const NamedValues& expected, const NamedValues& found, const Layer& layer,
                     Pass pass) {
  const Limit limit = limit_of(layer, pass, found.desc, found.parameter, layer.options().math);
  return {found.name, found.desc, compare(expected.values, found.values, limit, expected.sizes),
          limit};
}

bool all_agree(const std::vector<TensorResult>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [](const TensorResult& tensor) { return tensor.agreement.agrees; });
}

CheckData make_check_data(const Layer& layer, LayerData data, const LayerSituation& situation,
                          const std::vector<Pass>& passes, bool (*stop)()) {
  CheckData check_data{.situation = situation,
                       .data = std::move(data),
                       .other_data = random_data(layer, kOtherSeed)};
  check_data.other_data.step = check_data.data.step + 1;
  for (LayerData* each : {&check_data.data, &check_data.other_data}) {
    const LoopStop unfinished_loops(stop);
    layer.settle(each->x, each->w, each->dy);
    if (stop && stop()) throw InterruptedError();
  }
  check_data.expected = run_reference(layer, check_data.data, situation, passes, stop);
  check_data.other_expected = run_reference(layer, check_data.other_data, situation, passes, stop);
  return check_data;
}

CheckData relayout(const CheckData& check_data, const Layer& from, const Layer& to) {
  CheckData result{.situation = check_data.situation,
                   .data = relayout(check_data.data, from, to),
                   .other_data = relayout(check_data.other_data, from, to)};
  const auto turn = [&](Reference reference) {
    for (auto& [pass, outputs] : reference.outputs) {
      for (NamedValues& output : outputs) {
        const Layout layout = layout_of(output.name, to);
        TensorDesc desc = output.desc;
        desc.layout = layout;
        output.values = relayout(output.values, output.desc, desc);
        if (!output.sizes.empty()) output.sizes = relayout(output.sizes, output.desc, desc);
        output.desc = desc;
      }
    }
    return reference;
  };
  result.expected = turn(check_data.expected);
  result.other_expected = turn(check_data.other_expected);
  return result;
}

Examination examine(const Layer& layer, std::string_view id, Pass pass, const CheckData& check_data,
                    Context& context) {
  ProcessState process(context);
  Examination result;
  try {
    const CheckSets sets(layer, pass, check_data, context.device());
    const FilledFreshMemory fill;
    result = Examiner(layer, id, pass, check_data, sets, context).run();
  } catch (...) {  // whatever an implementation throws
    result.faults = {{FaultKind::kFailed, text_of_failure(id, context.device())}};
  }
  if (const std::string left = process.restore(); !left.empty()) {
    result.faults.push_back({FaultKind::kChangesProcess, "leaves behind, for all others: " + left});
    result.spoils_process = process.is_spoilt();
  }
  return result;
}

}  // namespace duet
