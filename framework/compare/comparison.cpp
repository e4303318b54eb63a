#include "compare/comparison.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "compare/fairness.h"
#include "compare/fields.h"
#include "compare/layers_comparison.h"
#include "compare/outputs.h"
#include "compare/results.h"
#include "compare/schedule.h"
#include "compare/tables.h"
#include "compare/throughput_comparison.h"
#include "compare/training_comparison.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/watchdog.h"
#include "device/clock_monitor.h"
#include "device/host_load.h"
#include "device/stopwatch.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;

namespace {

bool holds_times(const json& results) {
  const json& layers = element(member(results, "layers"), 0);
  return results.contains("training") || results.contains("throughput") ||
         !list(member(layers, "rows")).empty();
}

// Whether some arm has a time in some section.
bool any_time(const json& results) {
  const json& layers = element(member(results, "layers"), 0);
  for (const json* rows : {&member(results, "throughput"), &member(layers, "rows")}) {
    for (const json& row : list(*rows)) {
      for (const json& arm : list(member(row, "arms"))) {
        if (member(arm, "us").is_object() || member(arm, "training_us").is_object()) return true;
      }
    }
  }
  return results.contains("training");
}

class Comparison {
 public:
  Comparison(const CompareOptions& options, json* results)
      : options_(options), results_(*results), arms_(read_arms(arms_options(options, {}))) {}

  // Sections that are finished, and rows of layers, stand in the results even if this throws.
  void run() {
    const Dataset dataset = load();
    results_["environment"] = environment_json();
    for (const std::string& warning : version_lines(results_)) spdlog::warn("{}", warning);
    Context context(arms_[0].device());
    const Ceilings ceilings = measure_ceilings(context);
    results_["environment"]["ceilings"] = ceilings_json(ceilings, context.device());
    monitor_.emplace();
    load_.emplace();
    choose_batch(dataset);
    const int64_t batch = arms_[0].spec.data.batch;
    StepTimer timer(arms_, dataset, timing(), ceilings, shares());
    // --quick and the time left go by the steps of this batch, whatever is wanted.
    const bool wants_steps = wants("layers") || wants("training") || options_.quick;
    if (wants_steps) {
      left_.start("steps");
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
    results_["arms"] = arms_json(running);
    const StepTimes known = wants_steps ? timer.at(batch) : StepTimes{};
    const TrainingSize size = training_size(known, dataset);
    const std::vector<int64_t> of_throughput = batches(known);
    if (options_.quick) results_["left_out"] = left_out(size, dataset, of_throughput);
    const Dataset& learned =
        size.train < dataset.train.count || size.validation < dataset.validation.count
            ? part_.emplace(first_images(dataset, size))
            : dataset;
    expect(known, size, of_throughput);
    if (wants("layers")) {
      left_.start("layers");
      json& section = results_["layers"].emplace_back();
      compare_layers(running, steps(timer, batch), ceilings, layers_plan(), &section);
      note_clocks();
    }
    running.clear();  // what follows makes its own, and larger ones
    if (wants("training")) {
      left_.start("training");
      progress(0, "the training");
      results_["training"] = compare_training(
          arms_, learned, steps(timer, batch),
          {.steps = losses(), .seeds = seeds(), .progress = told(), .step_done = shares()});
      note_clocks();
    }
    if (wants("throughput")) {
      for (const int64_t each : of_throughput) {
        left_.start(throughput_at(each));
        progress(0, throughput_at(each));
        results_["throughput"].push_back(compare_throughput(timer, {each})[0]);
      }
    }
    note_clocks();
  }

 private:
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
    const bool asked = std::any_of(set.begin(), set.end(), [](const std::string& assignment) {
      return assignment.starts_with("data.batch=");
    });
    const int64_t batch = options_.quick && !asked ? quick_batch(estimate) : configured;
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
    results_["name"] = spec.name;
    results_["math"] = to_string(spec.math);
    const Setup setup = arms_[0].setup();
    Dataset dataset = setup.dataset.load(options_.data);
    spdlog::info("{}: {} training and {} validation images, {}", dataset.name,
                 format_count(dataset.train.count), format_count(dataset.validation.count),
                 dataset.source == "generated" ? dataset.source : "from " + dataset.source);
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

  bool wants(const std::string& section) const { return duet::wants(options_, section); }
  /// After every section: one that does not end leaves those of the ones before it.
  void note_clocks() {
    const ClockReport report = monitor_->report();
    if (report.samples > 0) results_["environment"]["clocks"] = clocks_json(report);
    const LoadReport load = load_->report();
    if (load.known) results_["environment"]["load"] = load_json(load);
  }
  LayersPlan layers_plan() {
    LayersPlan plan = {.pass = {.timing = timing(),
                                .cold = !options_.quick,
                                .before_round = InterruptGuard::check},
                       .network = {.block_seconds = 0.02, .rounds = 10, .most_rounds = 20},
                       .stop = InterruptGuard::requested,
                       .progress = told(),
                       .row_part = shares()};
    if (options_.quick) plan.network = TimingPlan::quick();
    if (arms_[0].device() == Device::kCpu) plan.network.rounds = plan.network.most_rounds = 5;
    return plan;
  }
  TimingPlan timing() const { return options_.quick ? TimingPlan::quick() : TimingPlan::full(); }
  int64_t seeds() const { return options_.seeds.value_or(options_.quick ? 2 : 5); }
  int64_t losses() const { return options_.quick ? 20 : 200; }
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
  json left_out(const TrainingSize& size, const Dataset& dataset,
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
    if (!holds_times(results_) || !partial_.due()) return;
    note_clocks();
    json results = results_;
    results["summary"] = summarise_results(results);
    partial_.write(std::move(results), work);
  }
  std::function<void(double, const std::string&)> told() {
    return [this](double share, const std::string& work) { progress(share, work); };
  }
  std::function<void(double)> shares() {
    return [this](double share) { tell(share); };
  }

  const CompareOptions& options_;
  json& results_;
  std::optional<ClockMonitor>
      monitor_;  // after the ceilings, which drive the machine to its limits
  std::optional<HostLoad> load_;
  std::vector<Arm> arms_;
  std::string smaller_batch_;    // what --quick says of it, if it chose one
  std::optional<Dataset> part_;  // what --quick learns from
  TimeLeft left_{now_seconds};
  PartialResults partial_{options_.out};
};

}  // namespace

bool wants(const CompareOptions& options, const std::string& section) {
  const auto& only = options.only;
  return only.empty() || std::find(only.begin(), only.end(), section) != only.end();
}

json measure_comparison(const CompareOptions& options, std::exception_ptr* stopped) {
  const Elapsed watch;
  json results = {{"schema", kResultsSchema},
                  {"command", options.command},
                  {"date", now_text()},
                  {"quick", options.quick}};
  Comparison comparison(options, &results);
  const InterruptGuard guard;
  const Watchdog watchdog;
  try {
    comparison.run();
  } catch (const std::exception&) {
    *stopped = named_error();
    if (!holds_times(results)) std::rethrow_exception(*stopped);
    results["stopped"] = message_of(*stopped);
  }
  if (!*stopped && !any_time(results)) {
    *stopped = std::make_exception_ptr(RunError("nothing was timed; the reasons stand above"));
  }
  results["seconds"] = watch.seconds();
  results["summary"] = summarise_results(results);
  return results;
}

}  // namespace duet
