#include "compare/comparison.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "compare/measure/layers_comparison.h"
#include "compare/measure/measuring_child.h"
#include "compare/measure/schedule.h"
#include "compare/measure/throughput_comparison.h"
#include "compare/measure/training_comparison.h"
#include "compare/results/outputs.h"
#include "compare/results/records.h"
#include "compare/results/results_json.h"
#include "compare/tables/summary.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/program.h"
#include "core/running.h"
#include "core/shell_word.h"
#include "core/watchdog.h"
#include "device/clock_monitor.h"
#include "device/host_load.h"
#include "device/stopwatch.h"
#include "net/table.h"
#include "train/evaluate/evaluate.h"

namespace duet {

namespace {

bool holds_times(const Results& results) {
  return results.training || !results.throughput.empty() ||
         (!results.layers.empty() && !results.layers[0].rows.empty());
}

// Whether some arm has a time in some section.
bool any_time(const Results& results) {
  for (const ThroughputRow& row : results.throughput) {
    if (row.any_timed()) return true;
  }
  for (const LayersSection& batch : results.layers) {
    for (const ComparedRow& row : batch.rows) {
      for (const auto& arm : row.arms) {
        if (arm && arm->us.known()) return true;
      }
    }
  }
  return results.training.has_value();
}

/// What has been measured, and what begins. One process goes on with that of another.
struct Progress {
  std::string work = "before anything was measured";
  bool in_sections = false;
  /// What the first one chose; no batch before.
  struct Sizes {
    Count batch = 0, train = 0, validation = 0;
    std::vector<int64_t> of_throughput;
    void fields(auto& f) {
      f("batch", batch)("train", train)("validation", validation)("of_throughput", of_throughput);
    }
  } sizes;
  Results results;
  void fields(auto& f) {
    f("work", work)("in_sections", in_sections)("sizes", sizes)("results", results);
  }
};

class Comparison {
 public:
  using Tell = std::function<void(const Progress&)>;

  /// Goes on with `progress`, and tells of it when something begins; `ended` is left out.
  Comparison(const CompareOptions& options, const std::vector<EndedWork>& ended, Progress* progress,
             Tell tell)
      : options_(options),
        ended_(ended),
        progress_(*progress),
        tell_(std::move(tell)),
        results_(progress->results),
        before_(results_.environment),
        arms_(read_arms(arms_options(options, {}))) {}

  // Sections that are finished, and rows of layers, stand in the results even if this throws.
  void run() {
    const Dataset dataset = load();
    check_files(options_);
    Context context(arms_[0].device());
    const Ceilings ceilings = note_environment(context);
    monitor_.emplace();
    load_.emplace();
    choose_batch(dataset);
    const int64_t batch = arms_[0].spec.data.batch;
    StepTimer timer(arms_, dataset, timing(), ceilings, shares());
    // --quick and the time left go by the steps of this batch, whatever is wanted.
    const bool wants_steps = wants("layers") || wants("training") || options_.quick;
    if (wants_steps) {
      left_.start("steps");
      progress(0, "the steps of batch " + std::to_string(batch));
      timer.at(batch);  // while nothing else is in memory
    }
    RunningArms running;
    for (const Arm& arm : arms_) {
      running.push_back(std::make_unique<RunningArm>(arm, dataset));
      RunningArm& started = *running.back();
      const double seconds = wants_steps ? timer.at(batch).prepare_seconds[running.size() - 1]
                                         : started.prepare_seconds();
      spdlog::info("{}: ready in {:.2f} s; the network:\n{}", arm.name, seconds,
                   network_table(started.setup().layers, &started.training().net()));
    }
    results_.arms = records_of(running);
    const StepTimes known = wants_steps ? timer.at(batch) : StepTimes{};
    const auto [size, of_throughput] = chosen(known, dataset);
    progress_.in_sections = true;
    const Dataset& learned =
        size.train < dataset.train.count || size.validation < dataset.validation.count
            ? part_.emplace(first_images(dataset, size))
            : dataset;
    expect(known, size, of_throughput);
    if (wants("layers")) {
      left_.start("layers");
      if (results_.layers.empty()) results_.layers.emplace_back();
      compare_layers(running, steps(timer, batch), ceilings, layers_plan(), &results_.layers[0]);
    }
    running.clear();  // what follows makes its own, and larger ones
    if (wants("training")) {
      left_.start("training");
      progress(0, "the training");
      results_.training = compare_training(
          arms_, learned, steps(timer, batch),
          {.steps = losses(), .seeds = seeds(), .progress = told(), .step_done = shares()});
    }
    if (wants("throughput")) {
      for (const int64_t each : of_throughput) {
        if (is_done(each)) continue;
        left_.start(throughput_at(each));
        progress(0, throughput_at(each));
        results_.throughput.push_back(compare_throughput(timer, each));
      }
    }
  }

  /// At the end, too, whatever it is.
  void tell() {
    if (monitor_) note_clocks();
    tell_(progress_);
  }

 private:
  // The first process's, as its rows are measured by it.
  Ceilings note_environment(Context& context) {
    EnvironmentRecord& environment = results_.environment;
    if (environment.ceilings) return ceilings_of(*environment.ceilings);
    environment = environment_record();
    for (const std::string& warning : version_warnings(environment.machine.versions)) {
      spdlog::warn("{}", warning);
    }
    const Ceilings ceilings = measure_ceilings(context);
    environment.ceilings = rates_of(ceilings, context.device());
    return ceilings;
  }

  static ArmsOptions arms_options(const CompareOptions& options, std::optional<int64_t> batch) {
    ArmsOptions arms = options.arms;
    if (options.quick && !arms.epochs) {
      arms.epochs = 1;
      arms.part_of_run = true;
    }
    if (batch) arms.assignments.push_back("data.batch=" + std::to_string(*batch));
    return arms;
  }

  /// With --quick a smaller batch than the configuration's where its steps take long, unless
  /// `--set data.batch` asks for one; and a first idea of the time left.
  void choose_batch(const Dataset& dataset) {
    const int64_t configured = arms_[0].spec.data.batch;
    StepTimes estimate = estimate_steps(arms_, dataset, configured);
    const auto& set = options_.arms.assignments;
    const int64_t chosen = static_cast<int64_t>(progress_.sizes.batch);
    const bool asked = std::any_of(set.begin(), set.end(), [](const std::string& assignment) {
      return assignment.starts_with("data.batch=");
    });
    const int64_t batch = chosen > 0                 ? chosen
                          : options_.quick && !asked ? quick_batch(estimate)
                                                     : configured;
    if (batch != configured) {
      arms_ = read_arms(arms_options(options_, batch));
      const double share = static_cast<double>(batch) / static_cast<double>(configured);
      for (auto* times : {&estimate.training, &estimate.inference}) {
        for (Times& each : *times) each.seconds[0] *= share;
      }
      estimate.batch = batch;
      if (wants("layers") || wants("training")) {
        smaller_batch_ = fmt::format(
            "batch {} instead of {} in all rows of layers and in training (--set data.batch={} "
            "asks "
            "for it)",
            batch, configured, configured);
        spdlog::info("--quick: {}", smaller_batch_);
      }
    }
    const bool any_on_cpu = std::any_of(
        arms_.begin(), arms_.end(), [](const Arm& arm) { return arm.device() == Device::kCpu; });
    if (!any_on_cpu) return;  // steps on a GPU take seconds
    if (wants("layers") || wants("training") || options_.quick) {
      left_.expect("steps", expected_steps_seconds(estimate, batch, timing()));
    }
    expect(estimate, training_size(estimate, dataset), batches(estimate));
  }

  Dataset load() {
    const NetSpec& spec = arms_[0].spec;
    results_.name = spec.name;
    results_.math = to_string(spec.math);
    const Setup setup = arms_[0].setup();
    Dataset dataset = load_dataset(setup, options_.data);
    dataset.stream = Stream::kNever;  // arms are compared, not the way of the data to them
    check_batch(setup, arms_[0].options.config, dataset);
    check_schedule(setup, arms_[0].options.config, dataset);
    for (const int64_t batch : wants("throughput") ? options_.batches : std::vector<int64_t>()) {
      if (batch <= dataset.train.count) continue;
      throw ConfigError("--batch " + std::to_string(batch) + ": " + dataset.name + " has " +
                        format_count(dataset.train.count) + " training images");
    }
    return dataset;
  }

  /// Of all arms that are right: the sections of the configuration's batch need every arm to run.
  const StepTimes& steps(StepTimer& timer, int64_t batch) const {
    const StepTimes& steps = timer.at(batch);
    for (size_t i = 0; i < arms_.size(); ++i) {
      if (!steps.errors[i].empty())
        throw RunError("arm '" + arms_[i].name + "': " + steps.errors[i]);
    }
    return steps;
  }

  /// Whether there is something to measure of it.
  bool wants(const std::string& section) const {
    if (!duet::wants(options_, section)) return false;
    if (section == "layers") return results_.layers.empty() || results_.layers[0].totals.empty();
    if (section == "training") return !results_.training && !has_ended("the training");
    return true;
  }
  bool is_done(int64_t batch) const {
    const auto& rows = results_.throughput;
    return has_ended(throughput_at(batch)) ||
           std::any_of(rows.begin(), rows.end(),
                       [&](const ThroughputRow& row) { return row.batch == batch; });
  }
  bool has_ended(const std::string& work) const {
    return std::any_of(ended_.begin(), ended_.end(), [&](const EndedWork& each) {
      return (each.work + " ").starts_with(work + " ");
    });
  }
  void note_clocks() {
    results_.environment.clocks = both(before_.clocks, record_of(monitor_->report()));
    results_.environment.load = both(before_.load, record_of(load_->report()));
  }
  LayersPlan layers_plan() {
    LayersPlan plan = {.pass = {.timing = timing(),
                                .cold = !options_.quick,
                                .before_round = InterruptGuard::check,
                                .child = options_.isolate},
                       .network = {.block_seconds = 0.02, .rounds = 10, .most_rounds = 20},
                       .stop = InterruptGuard::requested,
                       .ended = ended_,
                       .progress = told(),
                       .row_part = shares()};
    if (options_.quick) plan.network = TimingPlan::quick();
    if (arms_[0].device() == Device::kCpu) plan.network.rounds = plan.network.most_rounds = 5;
    return plan;
  }
  TimingPlan timing() const { return options_.quick ? TimingPlan::quick() : TimingPlan::full(); }
  int64_t seeds() const { return options_.seeds.value_or(options_.quick ? 2 : 5); }
  int64_t losses() const { return options_.quick ? 20 : 200; }
  /// The sizes of what is measured, which all processes keep.
  std::pair<TrainingSize, std::vector<int64_t>> chosen(const StepTimes& known,
                                                       const Dataset& dataset) {
    Progress::Sizes& sizes = progress_.sizes;
    if (sizes.batch == 0) {
      const TrainingSize size = training_size(known, dataset);
      sizes = {arms_[0].spec.data.batch, size.train, size.validation, batches(known)};
      if (options_.quick) results_.left_out = left_out(size, dataset, sizes.of_throughput);
    }
    return {{static_cast<int64_t>(sizes.train), static_cast<int64_t>(sizes.validation)},
            sizes.of_throughput};
  }
  std::vector<int64_t> batches(const StepTimes& known) const {
    if (!options_.batches.empty()) return options_.batches;
    if (options_.quick) return quick_batches(known);
    return all_batches();
  }
  static std::vector<int64_t> all_batches() { return {1, 8, 32, 64, 256, 1024}; }
  /// All images, unless --quick is left to say how many; --epochs asks for whole ones.
  TrainingSize training_size(const StepTimes& known, const Dataset& dataset) const {
    if (!options_.quick || options_.arms.epochs) {
      return {dataset.train.count, dataset.validation.count};
    }
    return quick_training(known, seeds(), dataset);
  }
  std::vector<std::string> left_out(const TrainingSize& size, const Dataset& dataset,
                                    const std::vector<int64_t>& of_throughput) const {
    std::vector<std::string> parts;
    if (!smaller_batch_.empty()) parts.push_back(smaller_batch_);
    parts.push_back("blocks of 10 ms instead of 50, 7 rounds instead of 10");
    if (arms_[0].device() == Device::kGpu) parts.push_back("no times with cold caches");
    if (wants("training")) {
      parts.push_back(std::to_string(losses()) + " losses instead of 200, " +
                      std::to_string(seeds()) + (seeds() == 1 ? " seed, " : " seeds, ") +
                      std::to_string(arms_[0].spec.train.epochs) + " epoch on " +
                      format_count(size.train) + " of " + format_count(dataset.train.count) +
                      " images, accuracy on " + format_count(size.validation) + " of " +
                      format_count(dataset.validation.count));
    }
    if (wants("throughput") && options_.batches.empty()) {
      std::vector<std::string> missing;
      for (const int64_t batch : all_batches()) {
        const bool there =
            std::find(of_throughput.begin(), of_throughput.end(), batch) != of_throughput.end();
        if (!there) missing.push_back(format_count(batch));
      }
      if (!missing.empty()) {
        parts.push_back("no throughput at batch " + join(missing) + " (--batch asks for others)");
      }
    }
    return parts;
  }

  // ---- the time left ----

  static std::string throughput_at(int64_t batch) {
    return "throughput at batch " + std::to_string(batch);
  }
  void expect(const StepTimes& known, const TrainingSize& size,
              const std::vector<int64_t>& of_throughput) {
    if (wants("layers")) {
      size_t rows = 0;
      for (const ResolvedLayer& layer : arms_[0].layers) rows += layer.passes.size();
      left_.expect("layers",
                   expected_layers_seconds(known, rows, timing(),
                                           !options_.quick && arms_[0].device() == Device::kGpu));
    }
    if (wants("training")) {
      left_.expect("training", expected_training_seconds(known, losses(), seeds(), size,
                                                         arms_[0].spec.train.epochs));
    }
    if (!wants("throughput")) return;
    for (const int64_t batch : of_throughput) {
      left_.expect(throughput_at(batch),
                   batch == known.batch ? 0 : expected_steps_seconds(known, batch, timing()));
    }
  }
  void tell(double share) {
    const std::string text = left_.text(share);
    if (!text.empty()) spdlog::info("{}", text);
  }
  void progress(double share, const std::string& work) {
    tell(share);
    progress_.work = work;
    tell();
    if (!holds_times(results_) || !partial_.due()) return;
    results_.summary = summarise(results_);
    partial_.write(to_json(results_), work);
  }
  std::function<void(double, const std::string&)> told() {
    return [this](double share, const std::string& work) { progress(share, work); };
  }
  std::function<void(double)> shares() {
    return [this](double share) { tell(share); };
  }

  const CompareOptions& options_;
  const std::vector<EndedWork>& ended_;
  Progress& progress_;
  const Tell tell_;
  Results& results_;
  const EnvironmentRecord before_;  // of the processes before
  std::optional<ClockMonitor>
      monitor_;  // after the ceilings, which drive the machine to its limits
  std::optional<HostLoad> load_;
  std::vector<Arm> arms_;
  std::string smaller_batch_;    // what --quick says of it, if it chose one
  std::optional<Dataset> part_;  // what --quick learns from
  TimeLeft left_{now_seconds};
  PartialResults partial_{options_.out};
};

void measure_here(const CompareOptions& options, Progress* progress) {
  const Watchdog watchdog(options.patience);
  Comparison comparison(options, {}, progress, [](const Progress&) {});
  comparison.run();
  comparison.tell();
}

/// Goes on with `progress` in a child.
ChildEnd go_on_in_child(const CompareOptions& options, const std::vector<EndedWork>& ended,
                        Progress* progress) {
  const auto measure = [&](const Send& send) {
    const Watchdog watchdog(options.patience);
    Comparison comparison(options, ended, progress,
                          [&](const Progress& now) { send(json_text(JsonWriter::write(now))); });
    try {
      comparison.run();
    } catch (const DeviceError&) {  // another process may have a device that works
      comparison.tell();
      throw UnusableProcessError(message_of(named_error()));
    } catch (...) {
      comparison.tell();
      throw;
    }
    comparison.tell();
  };
  std::string last;  // read when nothing is measured any more
  const auto read = [&] {
    if (!last.empty()) *progress = JsonReader::read<Progress>(nlohmann::json::parse(last));
  };
  try {
    const ChildEnd end = measure_in_child(measure, [&](const std::string& text) { last = text; });
    read();
    return end;
  } catch (...) {
    read();
    throw;
  }
}

/// Where an implementation ends its process, another one measures the rest. Throws what kept
/// something from being measured, at the end.
void measure_in_children(const CompareOptions& options, Progress* progress) {
  constexpr size_t kMostEnds = 4;  // a call that hangs takes minutes, each time
  std::vector<EndedWork> ended;
  std::vector<std::string> reasons;
  for (;;) {
    const ChildEnd end = go_on_in_child(options, ended, progress);
    InterruptGuard::check();
    if (end.finished) break;
    const std::string last = Running::last(), who = last.empty() ? "the measuring process" : last;
    const bool named = end.note.empty() || end.note.starts_with(Running::last_id() + " ");
    std::string id = named ? Running::last_id() : "";
    const bool again = std::any_of(ended.begin(), ended.end(), [&](const EndedWork& each) {
      return each.work == progress->work && each.id == id;
    });
    if (again) id = "";  // without it, too
    std::string text = end.note.empty() ? who + " " + end.text() : end.note;
    if (text.find(last) == std::string::npos) text += " (" + last + " ran last)";
    reasons.push_back(progress->work + ": " + text);
    ended.push_back({progress->work, id, text + ", and was not run again"});
    if (!progress->in_sections) {
      reasons.back() += "; '" + as_started("bench --config ") + shell_word(options.arms.config) +
                        "' measures each layer by itself, and the others where one ends";
    }
    if (!progress->in_sections || ended.size() == kMostEnds) break;
    spdlog::warn("{}; another process measures the rest", reasons.back());
  }
  if (!reasons.empty()) throw RunError(join(reasons, "; "));
}

}  // namespace

bool wants(const CompareOptions& options, const std::string& section) {
  const auto& only = options.only;
  return only.empty() || std::find(only.begin(), only.end(), section) != only.end();
}

Results measure_comparison(const CompareOptions& options, std::exception_ptr* stopped) {
  const Elapsed watch;
  Progress progress;
  progress.results = {.command = options.command, .date = now_text(), .quick = options.quick};
  Results& results = progress.results;
  try {
    const InterruptGuard guard;
    options.isolate ? measure_in_children(options, &progress) : measure_here(options, &progress);
  } catch (const std::exception&) {
    *stopped = named_error();
    if (!holds_times(results)) std::rethrow_exception(*stopped);
    results.stopped = message_of(*stopped);
  }
  if (!*stopped && !any_time(results)) {
    *stopped = std::make_exception_ptr(RunError("nothing was timed; the reasons stand above"));
  }
  results.seconds = watch.seconds();
  results.summary = summarise(results);
  return std::move(results);
}

}  // namespace duet
