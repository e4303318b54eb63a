#include "compare/bench.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <ostream>

#include "compare/bench_selection.h"
#include "compare/bench_tables.h"
#include "compare/format.h"
#include "compare/ladder.h"
#include "compare/layer_rows.h"
#include "compare/outputs.h"
#include "compare/problem.h"
#include "compare/records.h"
#include "compare/results_json.h"
#include "compare/sanitize.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/watchdog.h"
#include "device/clock_monitor.h"
#include "device/stopwatch.h"
#include "net/table.h"

namespace duet {

namespace {

constexpr double kManyFlops = 2e9;  // the reference takes about a second for that

class Bench {
 public:
  Bench(const BenchOptions& options, Device device, std::ostream& out)
      : options_(options), device_(device), out_(out), context_(device), partial_(options.out) {
    results_ = {.command = options.command,
                .date = now_text(),
                .device = std::string(to_string(device)),
                .quick = options.quick,
                .environment = environment_record()};
  }

  // Rows that are finished stand in results() even if this throws.
  void run(const std::vector<ProblemSelection>& selections) {
    const double start = now_seconds();
    for (const auto& warning : version_warnings(results_.environment.machine.versions)) {
      spdlog::warn("{}", warning);
    }
    spdlog::info("measuring what this {} can do at most", to_string(device_));
    ceilings_ = measure_ceilings(context_);
    clocks_.emplace();
    results_.environment.ceilings = rates_of(ceilings_, device_);
    for (const ProblemSelection& selection : selections) measure(selection);
    note_clocks();
    results_.seconds = now_seconds() - start;
  }

  BenchResults& results() { return results_; }

 private:
  void note_clocks() {
    const ClockReport report = clocks_->report();
    results_.environment.clocks = record_of(report);
    if (!report.reasons.empty()) {
      spdlog::warn("the GPU slowed down while this was measured: {}; its clock was {} to {} MHz",
                   join(report.reasons), report.sm_mhz_min, report.sm_mhz_max);
    }
  }

  void measure(const ProblemSelection& selection) {
    std::vector<Pass> passes;
    for (const PassSelection& each : selection.passes) {
      if (!each.candidates.empty()) passes.push_back(each.pass);
    }
    std::optional<CheckData> check_data;
    if (!passes.empty()) check_data = compute_reference(*selection.problem->layer, passes);
    for (const PassSelection& each : selection.passes) {
      measure(*selection.problem, each, check_data ? &*check_data : nullptr);
    }
  }

  CheckData compute_reference(const Layer& layer, const std::vector<Pass>& passes) {
    double flops = 0;
    for (Pass pass : passes) flops += 2 * layer.flops(pass);  // two sets of data
    if (flops > kManyFlops) {
      spdlog::info("{} {}: the reference computes {} GFLOP in double", layer.type(),
                   problem_argument(layer), format_significant(flops / 1e9));
    }
    const double start = now_seconds();
    CheckData check_data =
        make_check_data(layer, random_data(layer, 1), {}, passes, InterruptGuard::requested);
    if (flops > kManyFlops) {
      spdlog::info("done in {} on the {}", format_seconds(now_seconds() - start),
                   to_string(check_data.expected.device));
    }
    return check_data;
  }

  void measure(const BenchProblem& problem, const PassSelection& selection,
               const CheckData* check_data) {
    InterruptGuard::check();
    const Layer& layer = *problem.layer;
    const Pass pass = selection.pass;
    if (!results_.rows.empty() && partial_.due()) {
      partial_.write(to_json(results_), std::string(layer.type()) + " " + problem_argument(layer) +
                                            " " + std::string(to_string(pass)));
    }
    std::vector<PassMeasurement> measured;
    if (!selection.candidates.empty()) {
      const size_t count = selection.candidates.size();
      spdlog::info("{} {} {}: {} implementation{}", layer.type(), problem_argument(layer),
                   to_string(pass), count, count == 1 ? "" : "s");
      measured = measure_pass(selection.candidates, pass, *check_data, context_, plan());
      const double least = least_seconds(ceilings_, context_.device(), layer, pass);
      for (PassMeasurement& each : measured) refuse_impossible_times(each, least);
    }
    results_.rows.push_back(row_of(problem, selection, measured));
    if (!options_.json && options_.ladder.empty()) {
      out_ << bench_row_text(results_.rows.back()) << "\n" << std::flush;
    }
  }

  PassPlan plan() const {
    return {.timing = options_.quick ? TimingPlan::quick() : TimingPlan::full(),
            .cold = options_.cold,
            .before_round = InterruptGuard::check};
  }

  BenchRow row_of(const BenchProblem& problem, const PassSelection& selection,
                  const std::vector<PassMeasurement>& measured) const {
    std::vector<size_t> order;
    for (size_t i = 0; i < measured.size(); ++i) order.push_back(i);
    const auto time = [&](size_t i) {
      return measured[i].warm ? measured[i].warm->summary().median
                              : std::numeric_limits<double>::infinity();
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return time(a) < time(b); });
    const Layer& layer = *problem.layer;
    std::vector<RowArm> arms;
    std::optional<Place> baseline;  // the first of the candidates that was timed
    size_t baseline_candidate = measured.size();
    for (size_t i : order) {
      const Candidate& candidate = selection.candidates[i];
      if (measured[i].warm && i < baseline_candidate) {
        baseline = Place{arms.size()};
        baseline_candidate = i;
      }
      arms.push_back({&layer, candidate.id, is_shared(layer, candidate.id), &measured[i]});
    }
    BenchRow row = {measured_row({.name = problem.name,
                                  .layer = &layer,
                                  .pass = selection.pass,
                                  .floor_seconds = floor_seconds(ceilings_, layer, selection.pass),
                                  .repeat = repeat_command(layer, selection.pass) + how()},
                                 arms),
                    baseline};
    for (size_t i = 0; baseline && i < arms.size(); ++i) {
      if (i != *baseline) add_ratio(arms, i, *baseline, &row.ratios);
    }
    for (const auto& [id, reason] : selection.unsupported) row.unsupported.push_back({id, reason});
    return row;
  }

  static bool is_shared(const Layer& layer, const std::string& id) {
    const auto all = layer.implementations();
    return std::any_of(all.begin(), all.end(),
                       [&](const ImplInfo& info) { return info.id == id && info.shared; });
  }

  // The options that a row was measured with.
  std::string how() const {
    std::string text;
    if (!options_.impls.empty()) text += " --impl " + join(options_.impls, ",");
    if (options_.impls.empty() && device_ == Device::kCpu) text += " --device cpu";
    if (options_.quick) text += " --quick";
    if (options_.cold) text += " --cold";
    return text;
  }

  const BenchOptions& options_;
  const Device device_;
  std::ostream& out_;
  std::optional<ClockMonitor> clocks_;  // after the ceilings, which drive the machine to its limits
  Context context_;
  Ceilings ceilings_;
  PartialResults partial_;
  BenchResults results_;
};

std::vector<ImplCall> calls_of(const std::vector<ProblemSelection>& selections) {
  std::vector<ImplCall> calls;
  for (const auto& [problem, passes] : selections) {
    for (const PassSelection& selection : passes) {
      for (const Candidate& each : selection.candidates) {
        calls.push_back({each.layer, selection.pass, each.id});
      }
    }
  }
  return calls;
}

// Measures; rows that are finished when something stops it are returned, with the reason. If there
// are none, this throws the reason.
BenchResults measure(const std::vector<ProblemSelection>& selections, const BenchOptions& options,
                     Device device, std::ostream& out, std::exception_ptr* stopped) {
  Bench bench(options, device, out);
  const InterruptGuard guard;
  const Watchdog watchdog;
  try {
    bench.run(selections);
  } catch (const std::exception&) {
    *stopped = named_error();
    if (bench.results().rows.empty()) std::rethrow_exception(*stopped);
    bench.results().stopped = message_of(*stopped);
  }
  return std::move(bench.results());
}

}  // namespace

int run_bench(const BenchOptions& options, std::ostream& out) {
  const Device device = choose_device(options.impls, options.device);
  if (options.sanitize && device == Device::kCpu) {
    throw UnsupportedError(
        "--sanitize runs a GPU's kernels under compute-sanitizer; the CPU's code is checked by "
        "'./duet test --preset sanitize'");
  }
  std::optional<Ladder> ladder;
  ProblemSource source = options.problems;
  if (!options.ladder.empty()) {
    ladder = find_ladder(options.ladder);
    source.shapes = ladder->shapes.string();
    if (options.write) check_ladder(*ladder, device, options.force);
  }
  const std::vector<BenchProblem> problems = read_problems(source, device);
  check_outputs({{"--out", options.out}, {"--write", options.write ? ladder->page.string() : ""}},
                {{"--config", source.config}, {"--shapes", source.shapes}});
  const auto selections = select(problems, options.passes, options.impls, device);
  check_memory(selections, device);
  if (options.sanitize) return sanitize(calls_of(selections), out);
  if (options.once) return run_once(calls_of(selections), device, out);
  std::exception_ptr stopped;
  const BenchResults results = measure(selections, options, device, out, &stopped);
  const ExitCode written =
      write_output(options.out, stopped ? "the rows measured so far are in" : "results:", [&] {
        return file_text(to_json(results));
      });
  const std::string faults = bench_faults_text(results);
  if (options.json) {
    out << json_text(to_json(results)) << "\n";
  } else {
    out << (ladder ? ladder_markdown(results) : bench_scan_text(results));
  }
  if (!faults.empty()) spdlog::error("{}", faults);
  if (stopped) std::rethrow_exception(stopped);
  if (!faults.empty()) return written != kExitDone ? written : kExitComparison;
  if (ladder && options.write) {
    write_ladder(*ladder, results);
    spdlog::info("wrote the table in {}", ladder->page.string());
  }
  return written;
}

}  // namespace duet
