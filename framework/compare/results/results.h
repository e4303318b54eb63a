// The one product of a comparison, results.json, and that of bench: plain values, each with its
// keys in `fields`, the only place that names them (results_json.h reads and writes by it).
// Tables, Markdown and the report are made of these values alone, on any machine.
//
// Whatever was not measured is absent: a number is NaN and its key null, a list or a text is empty.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "measure/time/environment.h"

namespace duet {

inline constexpr const char* kResultsSchema = "duet.compare/1";
inline constexpr const char* kBenchSchema = "duet.bench/1";
/// The verdict on trainings of networks whose last loss takes no labels.
inline constexpr const char* kNoAccuracy = "no accuracy";
/// The verdict on arms that run the same implementations on the same problem: there is none.
inline constexpr const char* kSameCode = "same code";
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// A whole number from 0 to 1e15: a count or a size.
struct Count {
  double value = kUnknown;
  Count() = default;
  Count(std::integral auto count) : value(static_cast<double>(count)) {}
  operator double() const { return value; }
};

/// The place of an arm, counted from 0. Its key cannot be missing.
struct Place {
  size_t index = 0;
  operator size_t() const { return index; }
};

/// Microseconds; as a number the median.
struct Timing {
  double median = kUnknown, p20 = kUnknown, p80 = kUnknown;
  bool known() const { return !std::isnan(median); }
  operator double() const { return median; }
  void fields(auto& f) { f("median", median)("p20", p20)("p80", p80); }
};

/// How fast arm `a` is beside arm `b`. For times of the same code the verdict is kSameCode, and
/// `spread` the 20th and 80th percentile of all of them over their median.
struct ArmRatio {
  Place a, b;
  double speedup = kUnknown, low = kUnknown, high = kUnknown;
  std::string verdict;
  std::optional<std::pair<double, double>> spread = {};
  bool same_code() const { return verdict == kSameCode; }
  void fields(auto& f) {
    f("a", a)("b", b)("verdict", verdict);
    f.maybe("speedup", speedup).maybe("low", low).maybe("high", high).maybe("spread", spread);
  }
};
using ArmRatios = std::vector<ArmRatio>;

struct FoundFault {
  std::string kind, text;
  std::string picture = {};  // where the wrong elements lie; of a layer's examination
  void fields(auto& f) { f("kind", kind)("text", text).maybe("picture", picture); }
};
/// Of a layer in the network; of whole steps where `layer` is empty.
struct StepFault : FoundFault {
  std::string layer, pass;
  void fields(auto& f) {
    FoundFault::fields(f);
    f("layer", layer)("pass", pass);
  }
};
using StepFaults = std::vector<StepFault>;

// ---- one layer and pass; the same in compare and in bench ----

/// An output against the reference in double.
struct TensorError {
  std::string name, worst, limit;
  double max_error = kUnknown, rms_relative = kUnknown, cosine = kUnknown, expected = kUnknown,
         found = kUnknown, share_of_limit = kUnknown;
  void fields(auto& f) {
    f("name", name)("limit", limit).or_null("worst", worst);
    f("max_error", max_error)("rms_relative", rms_relative)("cosine", cosine);
    f("expected", expected)("found", found)("share_of_limit", share_of_limit);
  }
};

/// What was measured of an arm. `agrees` is absent for what is no layer: the batch, the update.
struct MeasuredArm {
  std::string implementation, detail;
  bool shared = false;
  std::optional<bool> agrees = {};
  Count workspace_bytes;
  double prepare_s = kUnknown, in_network_us = kUnknown, gflop_per_s = kUnknown,
         gb_per_s = kUnknown, share_of_floor = kUnknown;
  Timing us, cold_us;
  std::vector<double> rounds_us;  // of each round: in the process that measured, and in no file
  std::vector<FoundFault> faults;
  std::vector<TensorError> tensors;
  bool is_wrong() const { return agrees == false; }
  /// The largest share of its limit that any tensor uses.
  double worst_share() const {
    double worst = kUnknown;
    for (const TensorError& tensor : tensors) worst = std::fmax(worst, tensor.share_of_limit);
    return worst;
  }
  void fields(auto& f) {
    f("implementation", implementation)("us", us)("in_network_us", in_network_us);
    if (f.leaves_out(!agrees)) return;
    f("shared", shared)("detail", detail)("workspace_bytes", workspace_bytes);
    f("prepare_s", prepare_s)("agrees", agrees)("faults", faults)("tensors", tensors);
    f("cold_us", cold_us)("gflop_per_s", gflop_per_s)("gb_per_s", gb_per_s);
    f("share_of_floor", share_of_floor);
  }
};

/// One layer and pass. `type` is empty for what is no layer.
struct MeasuredRow {
  std::string layer, type, pass, problem, repeat;
  double flops = kUnknown, bytes = kUnknown, floor_us = kUnknown;
  std::vector<std::optional<MeasuredArm>> arms;  // nothing: that arm has no such layer
  ArmRatios ratios;
  const MeasuredArm* arm(size_t i) const {
    return i < arms.size() && arms[i] ? &*arms[i] : nullptr;
  }
  void fields(auto& f) {
    f("layer", layer).or_null("type", type)("pass", pass).by_arm("arms", arms)("ratios", ratios);
    if (f.leaves_out(type.empty())) return;
    f("problem", problem)("flops", flops)("bytes", bytes)("floor_us", floor_us)("repeat", repeat);
  }
};

// ---- where something was measured ----

struct CeilingRates {
  std::string device;
  double copy_gb_per_s = kUnknown, fp32_gflop_per_s = kUnknown, tf32_gflop_per_s = kUnknown,
         launch_us = kUnknown;
  void fields(auto& f) {
    f("device", device)("copy_gb_per_s", copy_gb_per_s)("fp32_gflop_per_s", fp32_gflop_per_s);
    f.maybe("tf32_gflop_per_s", tf32_gflop_per_s).maybe("launch_us", launch_us);
  }
};

struct ClockRecord {
  Count samples, sm_mhz_min, sm_mhz_max, temperature_c_max;
  double throttled_share = kUnknown;
  std::optional<bool> throttled = {};
  std::vector<std::string> reasons;
  void fields(auto& f) {
    f("samples", samples)("sm_mhz_min", sm_mhz_min)("sm_mhz_max", sm_mhz_max);
    f("temperature_c_max", temperature_c_max)("throttled_share", throttled_share);
    f("throttled", throttled)("reasons", reasons);
  }
};

struct LoadRecord {
  Count cores;
  double others_share = kUnknown, waited_share = kUnknown, load_average = kUnknown;
  void fields(auto& f) {
    f("cores", cores)("others_share", others_share)("waited_share", waited_share);
    f("load_average", load_average);
  }
};

struct EnvironmentRecord {
  std::string duet;
  Environment machine;
  std::optional<CeilingRates> ceilings = {};
  std::optional<ClockRecord> clocks = {};
  std::optional<LoadRecord> load = {};
  /// The GPU, or the CPU where there is none.
  const std::string& device() const { return machine.gpu.empty() ? machine.cpu : machine.gpu; }
  void fields(auto& f) {
    f("duet", duet)("versions", machine.versions)("cpu", machine.cpu)("os", machine.os);
    f("cpu_threads", machine.cpu_threads)("compiler", machine.compiler);
    f.maybe("gpu", machine.gpu).maybe("gpu_memory_bytes", machine.gpu_memory_bytes);
    f.maybe("driver", machine.driver).maybe("ceilings", ceilings).maybe("clocks", clocks);
    f.maybe("load", load);
  }
};

// ---- compare ----

/// One that `auto` timed.
struct TriedImpl {
  std::string implementation, fault;
  double us = kUnknown;
  std::optional<bool> far_slower = {};
  void fields(auto& f) {
    f("implementation", implementation).maybe("us", us).maybe("far_slower", far_slower);
    f.maybe("fault", fault);
  }
};

struct NetworkPass {
  std::string pass, implementation, instead_of, detail;
  bool shared = false;
  std::vector<TriedImpl> tried;
  Count workspace_bytes;
  std::optional<std::vector<std::string>> calls = {};  // of a library
  void fields(auto& f) {
    f("pass", pass)("implementation", implementation)("shared", shared);
    f.maybe("instead_of", instead_of).maybe("auto", tried)("workspace_bytes", workspace_bytes);
    f("detail", detail).maybe("calls", calls);
  }
};

struct NetworkLayer {
  std::string name, type, problem, output, unfused;
  Count parameters;
  std::vector<NetworkPass> passes;
  void fields(auto& f) {
    f("name", name)("type", type)("problem", problem)("output", output)("parameters", parameters);
    f("passes", passes).maybe("unfused", unfused);
  }
};

struct ArmRecord {
  std::string name, request, device, math, config;
  std::vector<NetworkLayer> network;
  void fields(auto& f) {
    f("name", name)("request", request)("device", device)("math", math)("config", config);
    f("network", network);
  }
};

/// The error of arm `a` over that of arm `b`.
struct ErrorRatio {
  Place a, b;
  double value = kUnknown;
  bool ok = false;
  void fields(auto& f) { f("a", a)("b", b)("value", value)("ok", ok); }
};

struct ComparedRow : MeasuredRow {
  std::optional<ErrorRatio> error_ratio = {};
  void fields(auto& f) {
    MeasuredRow::fields(f);
    if (f.leaves_out(type.empty())) return;
    f("error_ratio", error_ratio);
  }
};

/// The step of an arm and what it is made of.
struct ArmTotal {
  Place arm;
  Timing step_us;
  double sum_us = kUnknown, in_network_sum_us = kUnknown, gap_us = kUnknown, prepare_s = kUnknown;
  Count memory_bytes;
  void fields(auto& f) {
    f("arm", arm)("step_us", step_us)("sum_us", sum_us)("in_network_sum_us", in_network_sum_us);
    f("gap_us", gap_us)("prepare_s", prepare_s)("memory_bytes", memory_bytes);
  }
};

struct LayersSection {
  Count batch;
  std::string math;
  std::vector<ComparedRow> rows;
  std::vector<StepFaults> step_faults;  // by arm
  std::vector<ArmTotal> totals;         // none before all is measured
  ArmRatios step_ratios;
  void fields(auto& f) {
    f("batch", batch)("math", math)("rows", rows);
    if (f.leaves_out(totals.empty())) return;
    f.by_arm("totals", totals).by_arm("step_faults", step_faults)("step_ratios", step_ratios);
  }
};

struct TrainedArm {
  Place arm;
  std::vector<double> loss, repeat_loss, accuracy, final_loss, seconds;
  std::optional<bool> repeats = {};
  Count halted_at, peak_memory_bytes;
  std::vector<uint64_t> halted_seeds;
  double images_per_second = kUnknown, step_us = kUnknown, prepare_s = kUnknown;
  StepFaults step_faults;
  bool halted() const { return !std::isnan(halted_at) || !halted_seeds.empty(); }
  void fields(auto& f) {
    f("arm", arm)("loss", loss)("repeat_loss", repeat_loss)("repeats", repeats);
    f("halted_at", halted_at)("halted_seeds", halted_seeds)("accuracy", accuracy);
    f("final_loss", final_loss)("images_per_second", images_per_second)("step_us", step_us);
    f("step_faults", step_faults)("seconds", seconds)("peak_memory_bytes", peak_memory_bytes);
    f("prepare_s", prepare_s);
  }
};

struct TrainingDifference {
  Place a, b;
  std::vector<double> loss;
  double first_10_max = kUnknown, first_10_share = kUnknown, first_10_limit = kUnknown;
  std::optional<bool> losses_agree = {};
  double accuracy_mean_difference = kUnknown, low = kUnknown, high = kUnknown;
  std::string verdict;
  void fields(auto& f) {
    f("a", a)("b", b)("loss", loss)("first_10_max", first_10_max);
    f("first_10_share", first_10_share)("first_10_limit", first_10_limit);
    f("losses_agree", losses_agree)("accuracy_mean_difference", accuracy_mean_difference);
    f("low", low)("high", high)("verdict", verdict);
  }
};

struct TrainingSection {
  Count batch, epochs, steps_compared;
  std::vector<uint64_t> seeds;
  std::vector<TrainedArm> arms;
  ArmRatios step_ratios;
  std::vector<TrainingDifference> differences;
  void fields(auto& f) {
    f("batch", batch)("epochs", epochs)("steps_compared", steps_compared)("seeds", seeds);
    f.by_arm("arms", arms)("step_ratios", step_ratios)("differences", differences);
  }
};

struct StepSpeed {
  Timing us;
  double images_per_s = kUnknown;
};

/// `error`: why there is no time. `faults` is absent where the arm did not run.
struct ThroughputArm {
  Place arm;
  std::string error;
  std::optional<StepFaults> faults = {};
  StepSpeed training, inference;
  void fields(auto& f) {
    f("arm", arm).maybe("error", error).maybe("faults", faults);
    f.maybe("training_us", training.us).maybe("training_images_per_s", training.images_per_s);
    f.maybe("inference_us", inference.us).maybe("inference_images_per_s", inference.images_per_s);
  }
};

/// `inference_without_loss`: images to the network's outputs; absent from older results, whose inference had the loss and the
/// counts of an evaluation.
struct ThroughputRow {
  Count batch;
  std::optional<bool> inference_without_loss = {};
  std::vector<ThroughputArm> arms;
  ArmRatios training_ratios, inference_ratios;
  bool any_timed() const {
    for (const ThroughputArm& arm : arms) {
      if (arm.training.us.known()) return true;
    }
    return false;
  }
  void fields(auto& f) {
    f("batch", batch).maybe("inference_without_loss", inference_without_loss).by_arm("arms", arms);
    if (f.leaves_out(!any_timed())) return;
    f("training_ratios", training_ratios)("inference_ratios", inference_ratios);
  }
};

/// Training or inference, of the rows of throughput.
struct StepKind {
  const char* name;
  StepSpeed ThroughputArm::*speed;
  ArmRatios ThroughputRow::*ratios;
};
inline constexpr StepKind kTrainingSteps = {"training", &ThroughputArm::training,
                                            &ThroughputRow::training_ratios};
inline constexpr StepKind kInferenceSteps = {"inference", &ThroughputArm::inference,
                                             &ThroughputRow::inference_ratios};

/// Where an arm is wrong first. Without a layer it is a whole step or the training.
struct Mismatch {
  std::string layer, pass, arm, text;
  void fields(auto& f) {
    f.or_null("layer", layer).or_null("pass", pass)("arm", arm)("text", text);
  }
};

/// What a reader needs first.
struct ResultsSummary {
  bool ok = true;  // no arm is wrong anywhere
  std::optional<Mismatch> first_mismatch = {};
  /// Sentences: who is how much faster in what, accuracies, what differs.
  std::vector<std::string> headlines;
  void fields(auto& f) { f("ok", ok)("first_mismatch", first_mismatch)("headlines", headlines); }
};

/// `stopped`: why the measuring did not come to its end. `left_out`: what --quick changed.
struct Results {
  std::string name, command, date, math, stopped;
  bool quick = false;
  double seconds = kUnknown;
  std::vector<std::string> left_out;
  EnvironmentRecord environment;
  std::vector<ArmRecord> arms;
  std::vector<LayersSection> layers;  // by batch
  std::optional<TrainingSection> training = {};
  std::vector<ThroughputRow> throughput;  // by batch
  ResultsSummary summary;

  std::string arm_name(size_t arm) const {
    return arm < arms.size() ? arms[arm].name : "arm " + std::to_string(arm + 1);
  }
  void fields(auto& f) {
    f("arms", arms).set_arms(arms.size());
    f("name", name)("command", command)("date", date)("math", math)("quick", quick);
    f.maybe("stopped", stopped).maybe("seconds", seconds).maybe("left_out", left_out);
    f("environment", environment).maybe("layers", layers).maybe("training", training);
    f.maybe("throughput", throughput)("summary", summary);
  }
};

// ---- bench ----

/// Sorted by time; `baseline` is the place of the arm that all others are compared with.
struct BenchRow : MeasuredRow {
  struct Unsupported {
    std::string implementation, reason;
    std::optional<bool> broken = {};  // true: its file cannot be compiled
    void fields(auto& f) {
      f("implementation", implementation)("reason", reason).maybe("broken", broken);
    }
  };
  std::optional<Place> baseline = {};
  std::vector<Unsupported> unsupported;
  std::string suite = {};             // that its problem is of
  std::optional<bool> held_out = {};  // there; SuiteProblem
  void fields(auto& f) {
    MeasuredRow::fields(f);
    f("baseline", baseline)("unsupported", unsupported).maybe("suite", suite);
    f.maybe("held_out", held_out);
  }
};

/// What measuring rows took, by what was done; of the process that measured last.
struct SpentSeconds {
  double reference_s = 0, prepare_s = 0, examination_s = 0, timing_s = 0;
  void fields(auto& f) {
    f("reference_s", reference_s)("prepare_s", prepare_s)("examination_s", examination_s);
    f("timing_s", timing_s);
  }
};

struct BenchResults {
  std::string command, date, device, stopped;
  bool quick = false;
  double seconds = kUnknown;
  std::optional<SpentSeconds> spent = {};
  EnvironmentRecord environment;
  std::vector<BenchRow> rows;
  void fields(auto& f) {
    f("command", command)("date", date)("device", device)("quick", quick);
    f.maybe("stopped", stopped).maybe("seconds", seconds).maybe("spent", spent);
    f("environment", environment)("rows", rows);
  }
};

}  // namespace duet
