#include "compare/compare.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "compare/fairness.h"
#include "compare/fields.h"
#include "compare/layers_comparison.h"
#include "compare/markdown.h"
#include "compare/marked_text.h"
#include "compare/outputs.h"
#include "compare/report.h"
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
namespace fs = std::filesystem;

namespace {

// ---- what can be told beforehand ----

void check_sections(const std::vector<std::string>& only) {
  const auto& known = compare_sections();
  std::vector<std::string> mistakes;
  for (const std::string& name : only) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    mistakes.push_back("--only " + name + ": unknown" + did_you_mean(name, known) + "; there are " +
                       join(known));
  }
  if (!mistakes.empty()) throw ConfigError(join(mistakes, "\n"));
}

MarkedText read_marked_text(const std::string& page) {
  return duet::read_marked_text(page, "<!-- compare -->", "<!-- /compare -->");
}

bool wants(const CompareOptions& options, const std::string& section) {
  const auto& only = options.only;
  return only.empty() || std::find(only.begin(), only.end(), section) != only.end();
}

void check_files(const CompareOptions& options) {
  std::vector<NamedFile> inputs = {{"--from", options.from}, {"--config", options.arms.config}};
  for (const std::string& arm : options.arms.requests) {
    std::error_code error;
    if (fs::exists(arm, error)) inputs.push_back({"arm " + arm, arm});
  }
  check_outputs({{"--out", options.out},
                 {"--report", options.report},
                 {"--markdown", options.markdown},
                 {"--into", options.into}},
                inputs);
}

constexpr int64_t kMostSeeds = 1000;

void check_options(const CompareOptions& options) {
  check_sections(options.only);
  for (int64_t batch : options.batches) {
    if (batch < 1 || batch > ConfigReader::kMaxInteger) {
      throw ConfigError("--batch " + std::to_string(batch) + ": a batch has 1 to " +
                        std::to_string(ConfigReader::kMaxInteger) + " images");
    }
  }
  if (options.seeds && (*options.seeds < 1 || *options.seeds > kMostSeeds)) {
    throw ConfigError("--seeds " + std::to_string(*options.seeds) + ": expected 1 to " +
                      std::to_string(kMostSeeds));
  }
  if (!options.into.empty()) {
    read_marked_text(options.into);
    if (options.from.empty() && !wants(options, "layers")) {
      throw ConfigError("--into " + options.into +
                        ": the layers' table belongs there, and --only leaves 'layers' out");
    }
  }
  check_files(options);
}

// The options, where a build that cannot write reports leaves the results for one that can.
CompareOptions with_report_possible(CompareOptions options) {
  if (options.report.empty() || report_available()) return options;
  if (!options.from.empty()) report_html(json::object());  // throws what to do about it
  if (options.out.empty()) {
    options.out = fs::path(options.report).replace_extension(".json").string();
  }
  spdlog::warn(
      "this build has no chart library, so the report is not written; make it where there is one: "
      "compare --from {} --report {}",
      options.out, options.report);
  options.report.clear();
  check_files(options);
  return options;
}

// ---- measuring ----

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
    if (options.quick && !arms.epochs) arms.epochs = 1;
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
      if (!missing.empty()) parts.push_back("no throughput at batch " + join(missing));
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

void finish(json& results, std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  results["seconds"] = passed.count();
  results["summary"] = summarise_results(results);
}

// The page with the layers' table in it, if the layers were measured to the end.
std::string page_with_table(const std::string& page, const json& results) {
  const json& layers = list(member(results, "layers"));
  const bool whole =
      !layers.empty() && std::all_of(layers.begin(), layers.end(), [](const json& batch) {
        return !list(member(batch, "rows")).empty() && !list(member(batch, "totals")).empty();
      });
  if (!whole) {
    throw DataError(page +
                    ": nothing was written there, as the section 'layers', whose table belongs "
                    "there, is missing from these results or was not finished");
  }
  return read_marked_text(page).with(results_summary(results));
}

// The exit code of the last that failed.
ExitCode write(const CompareOptions& options, const json& results) {
  ExitCode code = kExitDone;
  const auto add = [&](const std::string& file, const char* what,
                       const std::function<std::string()>& make) {
    if (const ExitCode one = write_output(file, what, make); one != kExitDone) code = one;
  };
  add(options.out, "results:", [&] { return results_file_text(results); });
  add(options.markdown, "the same as Markdown:", [&] { return results_markdown(results); });
  add(options.into, "the layers' table: in",
      [&] { return page_with_table(options.into, results); });
  add(options.report, "report, for a browser:", [&] { return report_html(results); });
  return code;
}

void print(const CompareOptions& options, const json& results) {
  if (options.json) {
    std::printf("%s\n", json_text(results).c_str());
  } else {
    std::fputs(results_text(results).c_str(), stdout);
  }
}

// Measures; what is finished when something stops it is returned, with the reason. If that is
// nothing, this throws the reason.
json measure(const CompareOptions& options, std::exception_ptr* stopped) {
  const auto start = std::chrono::steady_clock::now();
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
  finish(results, start);
  return results;
}

}  // namespace

const std::vector<std::string>& compare_sections() {
  static const std::vector<std::string> names = {"layers", "training", "throughput"};
  return names;
}

int run_compare(const CompareOptions& asked) {
  const FailOn fail_on = read_fail_on(asked.fail_on);
  check_options(asked);
  const CompareOptions options = with_report_possible(asked);
  std::exception_ptr stopped;
  const json results =
      options.from.empty() ? measure(options, &stopped) : load_results(options.from);
  const ExitCode written = write(options, results);
  print(options, results);
  if (stopped) std::rethrow_exception(stopped);
  const std::vector<std::string> reasons = failures(results, fail_on);
  for (const std::string& reason : reasons) spdlog::error("--fail-on: {}", reason);
  if (written != kExitDone) return written;
  return reasons.empty() ? kExitDone : kExitComparison;
}

}  // namespace duet
