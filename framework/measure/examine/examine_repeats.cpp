// Many calls: the same bits from the same data, and the same time for other data.
#include <algorithm>
#include <chrono>
#include <ctime>
#include <thread>

#include "core/interrupt.h"
#include "core/number_text.h"
#include "device/step_graph.h"
#include "device/stopwatch.h"
#include "measure/examine/changing_calls.h"
#include "measure/examine/examine_checks.h"
#include "measure/examine/memory_use.h"
#include "measure/examine/repeat_work.h"
#include "measure/time/statistics.h"
#include "measure/time/timing.h"

namespace duet {
namespace {

constexpr int64_t kMostReplays = 4000;
constexpr double kReplaySeconds = 0.05, kChangingSeconds = 0.02, kPlainSeconds = 0.005;
// Samples at least, and of calls so long that these would compute for more than kMostComputed. Not
// time, of which other processes may leave little.
constexpr size_t kFewest = 16, kFewestLong = 3;
constexpr std::clock_t kMostComputed = CLOCKS_PER_SEC * 3 / 10;
constexpr double kLongCall = 0.01;  // what happens beside it does not matter
constexpr int kMostExaminedInGraph = 50;
// Bytes: what the heap keeps for itself, or other threads take, and the least of a call that is told.
constexpr int64_t kNoise = 8 << 10, kLeastLeaked = 256;
constexpr int kTurns = 5;
constexpr int kAttempts = 3;  // a machine that is busy at the wrong moment is not so every time

/// Seconds of single calls.
struct Samples {
  std::vector<double> same;      // on the same data, written anew before each call
  std::vector<double> changing;  // on data that are different in each call
  std::vector<double> plain;     // back to back, as they are timed; empty for long calls
};

constexpr Margin kToSame = {2, 3e-6};
constexpr Margin kToSameOnGpu = {2,
                                 1e-6};  // the mean of many calls, whose time the data decide less
constexpr Margin kToPlain = {3, 5e-6};   // back to back, the inputs are nearer and launches overlap

class Repeater {
 public:
  Repeater(const ExamineSubject& subject, LayerRig& rig)
      : subject_(subject),
        context_(subject.context),
        rig_(rig),
        numbers_(context_.device(), 5 * sizeof(uint64_t)) {
    fill_bytes(numbers_.data(), context_.device(), 0, numbers_.bytes());
    queue_advance(context_, number(kSame), 1);
    rig_.load(subject_.sets.other->data());
    other_inputs_ = copies(rig_.read_by(Pass::kForward));
    rig_.load(subject_.sets.first.data());
    run_through(rig_, subject_.sets.first);
    inputs_ = copies(rig_.read_by(subject_.pass));
    queue_call(kSame);
    outputs_ = copies(rig_.written_by(subject_.pass));
    fill_bytes(differences(kSame), context_.device(), 0, 2 * sizeof(uint64_t));
    fill_bytes(number(kChanging), context_.device(), 0, sizeof(uint64_t));
    queue_advance(context_, number(kChanging), 2);
  }

  RepeatedCalls run() {
    RepeatedCalls result;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const Samples samples = context_.device() == Device::kGpu ? sample_gpu() : sample_cpu();
      if (attempt == 0) {
        const bool right = is_computed_anew() && is_right_for_new_data();
        result.fault = fault_of_outputs(right);
      }
      result.replayed = replayed_;
      if (result.fault) break;
      auto fault = fault_of_leaks();
      if (!fault) fault = fault_of_times(samples);
      if (!fault) break;
      if (attempt == kAttempts - 1) result.fault = std::move(fault);
    }
    rig_.load(subject_.sets.first.data());
    return result;
  }

 private:
  enum Mode { kSame, kChanging };
  struct Copy {
    Tensor tensor;
    Buffer values;
  };

  std::vector<Copy> copies(const std::vector<Tensor>& tensors) {
    std::vector<Copy> all;
    for (const Tensor& tensor : tensors) {
      all.push_back({tensor, Buffer(context_.device(), tensor.bytes())});
      context_.queue_copy(all.back().values.data(), tensor.memory, tensor.bytes());
    }
    context_.synchronize();
    return all;
  }

  uint64_t* number(Mode mode) { return static_cast<uint64_t*>(numbers_.data()) + mode; }
  uint64_t value(const uint64_t* memory) const {
    context_.synchronize();
    uint64_t result = 0;
    copy_bytes(&result, Device::kCpu, memory, context_.device(), sizeof result);
    return result;
  }
  uint64_t* zero() { return static_cast<uint64_t*>(numbers_.data()) + 4; }
  uint64_t* differences(Mode mode) { return static_cast<uint64_t*>(numbers_.data()) + 2 + mode; }

  // What surrounds a call is the same for both modes, so that only what is written differs.
  void queue_before(Mode mode) {
    rig_.queue_poison(subject_.pass);
    for (const Copy& input : inputs_) {
      queue_variant(context_, input.tensor, input.values.data(), number(mode));
    }
    queue_step(context_, rig_.step(), subject_.sets.first.data()->step, number(mode));
  }
  // Counting differences takes longer where there are some: where they are expected, equal bytes
  // are compared.
  void queue_after(Mode mode, bool called = true) {
    for (const Copy& output : outputs_) {
      const void* written = output.tensor.memory;
      const void* first = output.values.data();
      queue_count_differences(context_, called ? written : first, mode == kSame ? first : written,
                              output.tensor.bytes(), differences(mode));
    }
    queue_advance(context_, number(mode), mode == kChanging ? 1 : 0);
  }
  void queue_call(Mode mode) {
    queue_before(mode);
    rig_.queue(subject_.pass);
    queue_after(mode);
  }

  double seconds_of_call(Mode mode) {
    InterruptGuard::check();
    queue_before(mode);
    const double before = now_seconds();
    rig_.queue(subject_.pass);
    const double seconds = now_seconds() - before;
    queue_after(mode);
    return seconds;
  }

  /// Calls of one mode in a row, a part of `parts`.
  void sample(Mode mode, double seconds, int parts, std::vector<double>& into) {
    seconds_of_call(mode);  // behind calls of the other mode: on new data for both
    const int64_t in_use = memory_in_use(Device::kCpu);
    const double start = now_seconds();
    const std::clock_t computed = std::clock();
    const size_t before = into.size(), share = static_cast<size_t>(parts);
    const auto sampled = [&] { return into.size() - before; };
    while (sampled() * share < kFewestLong ||
           (sampled() * share < kFewest && (std::clock() - computed) * parts < kMostComputed) ||
           ((now_seconds() - start) * parts < seconds && sampled() * share < kMostReplays)) {
      into.push_back(seconds_of_call(mode));
    }
    grown_[mode] += memory_in_use(Device::kCpu) - in_use;
  }

  /// In turns, so that what other processes do meanwhile falls on both modes.
  Samples sample_cpu() {
    Samples samples;
    samples.same.reserve(2 * kMostReplays);  // before memory is looked at
    samples.changing.reserve(2 * kMostReplays);
    grown_[kSame] = grown_[kChanging] = 0;
    const double call = seconds_of_call(kSame);
    const int turns = call < kLongCall ? kTurns : 1;
    for (int turn = 0; turn < turns; ++turn) {
      sample(kSame, kReplaySeconds, turns, samples.same);
      if (call < kLongCall) {
        const double median = summarise(samples.same).median;
        const auto calls = static_cast<int64_t>(kPlainSeconds / turns / std::max(median, 1e-7)) + 1;
        samples.plain.push_back(plain_seconds(calls));
      }
      sample(kChanging, kChangingSeconds, turns, samples.changing);
    }
    replayed_ += static_cast<int64_t>(samples.same.size());
    leaked_[kSame] = bytes_a_call(kSame, samples.same);
    leaked_[kChanging] = bytes_a_call(kChanging, samples.changing);
    return samples;
  }

  int64_t bytes_a_call(Mode mode, const std::vector<double>& calls) const {
    return grown_[mode] < kNoise ? 0 : grown_[mode] / static_cast<int64_t>(calls.size());
  }

  double plain_seconds(int64_t calls) {
    rig_.queue(subject_.pass);  // so that the first one comes close behind another too
    return seconds_of(
               context_, [&] { rig_.queue(subject_.pass); }, calls) /
           static_cast<double>(calls);
  }

  /// Graphs of several calls, less the time of what surrounds these.
  Samples sample_gpu() {
    capture();
    Samples samples;
    const auto seconds = [&](StepGraph& graph) {
      return seconds_of(
          context_, [&] { graph.launch(); }, 1);
    };
    for (StepGraph* graph : {&same_, &idle_, &changing_, &plain_}) graph->launch();  // warms up
    replayed_ += in_graph_;
    for (int round = 0; round < 5; ++round) {
      InterruptGuard::check();
      const double idle = seconds(idle_);
      samples.same.push_back((seconds(same_) - idle) / in_graph_);
      samples.plain.push_back(seconds(plain_) / in_graph_);
      samples.changing.push_back((seconds(changing_) - idle) / in_graph_);
      replayed_ += in_graph_;
    }
    const double start = now_seconds();
    while (replayed_ < kMostReplays && now_seconds() - start < kReplaySeconds) {
      same_.launch();
      context_.synchronize();
      replayed_ += in_graph_;
    }
    changing_.launch();  // what follows comes at once behind calls on changing data
    return samples;
  }

  void capture() {
    if (same_) return;
    const StepGraph call(context_, [&] { queue_call(kSame); });
    StepGraph one(context_, {&call});
    one.launch();
    in_graph_ = calls_in_graph(context_, one, kMostExaminedInGraph);
    const auto repeated = [&](auto&& queue) {
      const StepGraph part(context_, queue);
      return StepGraph(context_,
                       std::vector<const StepGraph*>(static_cast<size_t>(in_graph_), &part));
    };
    same_ = repeated([&] { queue_call(kSame); });
    changing_ = repeated([&] { queue_call(kChanging); });
    idle_ = repeated([&] {
      queue_before(kSame);
      queue_after(kSame, false);
    });
    plain_ = repeated([&] { rig_.queue(subject_.pass); });
  }

  /// Of data never seen, at once behind calls on other data: the same bits as after a pause.
  bool is_computed_anew() {
    for (int i = 0; i < 3; ++i) queue_call(kChanging);
    queue_before(kChanging);
    rig_.queue(subject_.pass);
    const std::vector<Copy> at_once = copies(rig_.written_by(subject_.pass));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fill_bytes(differences(kChanging), context_.device(), 0, sizeof(uint64_t));
    queue_before(kChanging);  // the same data once more
    rig_.queue(subject_.pass);
    for (const Copy& output : at_once) {
      queue_count_differences(context_, output.tensor.memory, output.values.data(),
                              output.tensor.bytes(), differences(kChanging));
    }
    return value(differences(kChanging)) == 0;
  }

  /// At once behind calls on other data.
  bool is_right_for_new_data() {
    const CheckSet& other = *subject_.sets.other;
    for (const Copy& input : other_inputs_) {
      context_.queue_copy(input.tensor.memory, input.values.data(), input.tensor.bytes());
    }
    queue_step(context_, rig_.step(), other.data()->step, zero());
    queue_through(rig_, other);
    context_.synchronize();
    return all_agree(hold_to(other, rig_));
  }

  std::optional<Fault> fault_of_outputs(bool right_for_new_data) {
    if (const uint64_t different = value(differences(kSame))) {
      return Fault{
          FaultKind::kSometimesWrong,
          "is not the same in every call: " + std::to_string(replayed_) +
              " calls on the same data differ from the first in " + std::to_string(different) +
              " values of their outputs, and few calls did not (a race, a count of calls)"};
    }
    if (!right_for_new_data) {
      return Fault{FaultKind::kRemembers,
                   "remembers earlier results: it is wrong for new data that come close behind "
                   "calls on other data"};
    }
    if (const std::string damage = rig_.workspace_damage() + rig_.buffer_damage();
        !damage.empty()) {
      return Fault{FaultKind::kOverrun,
                   "writes outside its buffers, in some of many calls:\n" + damage};
    }
    return {};
  }

  std::optional<Fault> fault_of_leaks() const {
    const int64_t bytes = std::min(leaked_[kSame], leaked_[kChanging]);
    if (bytes < kLeastLeaked) return {};
    return Fault{FaultKind::kTakesMemory,
                 "leaks: every call leaves " + std::to_string(bytes) + " bytes behind"};
  }

  std::optional<Fault> fault_of_times(const Samples& samples) const {
    const bool than_same = is_longer(samples.changing, samples.same,
                                     context_.device() == Device::kGpu ? kToSameOnGpu : kToSame);
    const bool than_plain = is_longer(samples.changing, samples.plain, kToPlain);
    if (!than_same && !than_plain) return {};
    const std::string text =
        printed("%.4g us on %s, and %.4g us on data that change",
                1e6 * summarise(than_same ? samples.same : samples.plain).median,
                than_same ? "the same data" : "the same data back to back",
                1e6 * summarise(samples.changing).median);
    return Fault{FaultKind::kRemembers,
                 std::string("remembers earlier results: a call takes ") + text +
                     " from call to call, as in a training; while it is timed nothing changes, so "
                     "that no time is given"};
  }

  const ExamineSubject& subject_;
  Context& context_;
  LayerRig& rig_;
  Buffer numbers_;  // of the variants that are written next and of differences, by mode; and a zero
  std::vector<Copy> inputs_, other_inputs_, outputs_;
  int64_t replayed_ = 0;
  int64_t grown_[2] = {}, leaked_[2] = {};  // bytes in all and a call, by mode, on the CPU
  int in_graph_ = 1;
  StepGraph same_, changing_, idle_, plain_;  // on a GPU
};

}  // namespace

RepeatedCalls examine_repeats(const ExamineSubject& subject, LayerRig& rig) {
  return Repeater(subject, rig).run();
}

}  // namespace duet
