#include "measure/examine/examine.h"

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
#include "measure/check/classify.h"
#include "measure/check/compare_memory.h"
#include "measure/examine/examine_checks.h"
#include "measure/examine/process_state.h"
#include "measure/examine/repeat_work.h"

namespace duet {
namespace {

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
           const CheckSet& first, Context& context, const Guards& guards)
      : layer_(layer),
        id_(id),
        pass_(pass),
        check_data_(check_data),
        first_(first),
        context_(context),
        rig_(layer, id, passes_through(layer, id, pass), context, check_data.situation, guards) {}

  Examination check_agreement() {
    check_data(nullptr, 2);
    if (result_.passed()) check_without_dx();
    return std::move(result_);
  }

  Examination check_everything(const CheckSets& sets) {
    check_data(&*sets.other, kRepetitions);
    check_timeliness();
    if (result_.passed()) check_graph();
    if (result_.passed()) check_without_dx();
    std::vector<std::unique_ptr<Layer>> neighbours;
    if (result_.passed()) neighbours = supported_neighbours(layer_, id_, pass_);
    const ExamineSubject subject = {layer_, id_, pass_, check_data_, sets, context_, neighbours};
    if (result_.passed()) add(find_shape_bound(subject));
    if (!result_.passed() && result_.faults.back().kind == FaultKind::kShapeBound) {
      // State that all instances of a shape share is wrong on others, too: it is named as what it is.
      if (auto shared = find_shared_state(subject, rig_))
        result_.faults.back() = std::move(*shared);
    }
    if (result_.passed()) add(find_data_bound(subject));
    if (result_.passed()) add(find_shared_state(subject, rig_));
    if (result_.passed()) add(find_thread_bound(subject, rig_));
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
    run_through(rig_, set, {}, [this] { check_damage(); });
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
      add(FaultKind::kWorkspaceOverrun, "takes more workspace than it asked for (" +
                                            std::to_string(rig_.op().workspace_bytes(pass_)) +
                                            " bytes for " + std::string(to_string(pass_)) + "):\n" +
                                            workspace);
    }
    if (!inputs.empty()) add(FaultKind::kChangesInput, "changes what it may only read:\n" + inputs);
    if (!buffers.empty()) add(FaultKind::kOverrun, "writes outside its buffers:\n" + buffers);
    damaged_ = !result_.passed();
  }

  void check_data(const CheckSet* other_set, int repetitions) {
    rig_.load(first_.data());
    std::vector<Round> same, other;
    while (static_cast<int>(same.size()) < repetitions) same.push_back(round(first_));
    result_.tensors = same[0].tensors;
    bool renewed = true;
    if (other_set) {
      rig_.load(other_set->data());
      while (other.size() < 2) other.push_back(round(*other_set));
      rig_.renew(first_.data());
      queue_through(rig_, first_);
      context_.synchronize();
      renewed = all_agree(hold_to(first_, rig_));
    }
    const auto wrong = std::find_if(same.begin(), same.end(), [](auto& r) { return !r.agrees; });

    // The most telling finding first; those that follow from it are left out.
    if (other_set && is_stale(other[0], same.back())) {
      if (other[1].agrees) {
        add(FaultKind::kPreviousOutput,
            "returns the previous call's output: new data in the same buffers gave the old result, "
            "and the right one a call later");
      } else {
        add(FaultKind::kCached,
            "returns the result of earlier data although the same buffers hold new data: it caches "
            "by pointer, or never reads its inputs again");
      }
    } else if (wrong == same.begin()) {
      add_disagreement(same[0], first_, "");
    } else if (wrong != same.end()) {
      add(FaultKind::kFirstTimeOnly,
          "is right only the first time: a repeated run on the same data " +
              classify(wrong->tensors, wrong->outputs, first_.outputs()).text);
    } else if (other_set && !other[0].agrees) {
      add_disagreement(other[0], *other_set, "with other data: ");
    } else if (!renewed) {
      add(FaultKind::kCached,
          "is wrong where its output, its state or its workspace still hold what earlier data left "
          "there: it takes that for its result");
    } else if (!repeats(same) || !repeats(other)) {
      add(FaultKind::kUnrepeatable,
          "is not deterministic: two runs on the same data differ in some bits");
    }
    whole_ = std::move(same.back().snapshot);
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
  bool repeats(const std::vector<Round>& rounds) const {
    for (const Round& each : rounds) {
      for (size_t i = 0; i < each.snapshot.size(); ++i) {
        if (!same_bits(rounds.front(), each, i)) return false;
      }
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

  /// A gradient that nobody wants is left alone, and everything else is as with it.
  void check_without_dx() {
    const auto inputs = rig_.differentiable_inputs();
    if (pass_ == Pass::kForward || inputs.empty()) return;
    std::vector<std::vector<size_t>> choices = {inputs};
    if (inputs.size() > 1) {
      for (size_t i : inputs) choices.push_back({i});
    }
    const auto tensors = rig_.written_by(pass_);
    rig_.load(first_.data());
    for (const auto& without : choices) {
      rig_.reset();
      run_through(rig_, first_, without, [this] { check_damage(); });
      for (size_t i = 0; i < tensors.size(); ++i) {
        const std::string& name = first_.outputs()[i].name;
        const bool wanted = std::none_of(without.begin(), without.end(), [&](size_t k) {
          return name == "dx[" + std::to_string(k) + "]";
        });
        if (!wanted || !result_.passed() ||
            same_bytes(tensors[i].memory, whole_[i].data(), whole_[i].bytes(), context_)) {
          continue;
        }
        add(FaultKind::kWrong, "changes " + name + " where the gradients of " +
                                   std::to_string(without.size()) + " inputs are not wanted");
      }
    }
  }

  /// What the stream says is done must be done, and must have waited for what came before it.
  void check_timeliness() {
    rig_.load(first_.data());
    run_through(rig_, first_);
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
    const bool there = all_agree(hold_to(first_, rig_));
    std::string what;
    if (changed && !unrepeatable) {
      what = context_.device() == Device::kGpu
                 ? "returns early: its stream was done before its output was there; it runs on "
                   "another stream"
                 : "returns early: its output was written after run() had returned";
    } else if (result_.passed() && !there && uses_up_state()) {
      return add(
          FaultKind::kUsesUpState,
          "uses up what forward left for it: its first call behind a forward is right, and "
          "the second one is wrong; backward passes may run several times (implementation.h)");
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

  /// Whether a second backward pass behind a forward is wrong, although nothing is queued before it.
  bool uses_up_state() {
    if (passes_through(layer_, id_, pass_).size() == 1) return false;
    rig_.load(first_.data());
    run_through(rig_, first_);
    rig_.queue_poison(pass_);
    context_.synchronize();
    rig_.run(pass_);
    if (context_.device() == Device::kCpu) wait_for_threads();
    return !all_agree(hold_to(first_, rig_));
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
    run_through(rig_, first_);
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
      if (!all_agree(hold_to(first_, rig_))) {
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
  const CheckSet& first_;
  Context& context_;
  LayerRig rig_;
  const size_t threads_ = thread_count();  // before it ran
  Examination result_;
  bool damaged_ = false;
  std::vector<Buffer> whole_;  // what the pass gives of the first data
};

}  // namespace

Examination check(const Layer& layer, std::string_view id, Pass pass, const CheckData& check_data,
                  Context& context, CheckLevel level) {
  Examination result;
  std::optional<ProcessState> process;
  if (level == CheckLevel::kEverything) process.emplace(context);
  try {
    const bool exact = check_data.exact && can_be_exact(layer, id, pass);
    if (level == CheckLevel::kAgreement) {
      const CheckSet set(layer, pass, check_data.data, check_data.expected, context.device(),
                         exact);
      return Examiner(layer, id, pass, check_data, set, context, Guards{}).check_agreement();
    }
    const CheckSets sets(layer, pass, check_data, context.device(), exact);
    const FilledFreshMemory fill;
    result = Examiner(layer, id, pass, check_data, sets.first, context, kWideGuards)
                 .check_everything(sets);
  } catch (...) {  // whatever an implementation throws
    result.faults = {{FaultKind::kFailed, text_of_failure(id, context.device())}};
  }
  if (!process) return result;
  if (const std::string left = process->restore(); !left.empty()) {
    result.faults.push_back({FaultKind::kChangesProcess, "leaves behind, for all others: " + left});
    result.spoils_process = process->is_spoilt();
  }
  return result;
}

}  // namespace duet
