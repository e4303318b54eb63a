#include "lab/bench_rows.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <limits>
#include <set>

#include "compare/results/layer_rows.h"
#include "compare/results/problem.h"
#include "compare/results/records.h"
#include "compare/tables/format.h"
#include "core/interrupt.h"
#include "core/watchdog.h"
#include "device/clock_monitor.h"
#include "device/stopwatch.h"

namespace duet {

namespace {

constexpr double kManyFlops = 2e9;  // the reference takes about a second for that

/// `whole`: for examinations of everything, else of agreement.
CheckData compute_reference(const Layer& layer, const std::vector<Pass>& passes, bool whole) {
  double flops = 0;
  for (Pass pass : passes) flops += (whole ? 2 : 1) * layer.flops(pass);  // sets of data
  if (flops > kManyFlops) {
    spdlog::info("{} {}: the reference computes {} GFLOP in double", layer.type(),
                 problem_argument(layer), format_significant(flops / 1e9));
  }
  const Elapsed watch;
  const auto make = whole ? make_check_data : make_first_check_data;
  CheckData check_data = make(layer, random_data(layer, 1), {}, passes, InterruptGuard::requested);
  if (flops > kManyFlops) {
    spdlog::info("done in {} on the {}", format_seconds(watch.seconds()),
                 to_string(check_data.expected.device));
  }
  return check_data;
}

class Bench {
 public:
  Bench(const BenchOptions& options, Device device, const BenchPart& part, const BenchSink& sink)
      : options_(options), device_(device), part_(part), sink_(sink), context_(device) {
    results_ = {.command = options.command,
                .date = now_text(),
                .device = std::string(to_string(device)),
                .quick = options.quick,
                .environment = part.environment ? *part.environment : environment_record()};
  }

  void run(const std::vector<ProblemSelection>& selections) {
    note_environment();
    clocks_.emplace();
    results_.spent.emplace();
    sink_({.results = results_});
    for (size_t i = 0; i < selections.size(); ++i) measure(selections[i], i);
    const std::optional<ClockRecord>& clocks = results_.environment.clocks;
    if (clocks && !clocks->reasons.empty()) {
      spdlog::warn("the GPU slowed down while this was measured: {}; its clock was {} to {} MHz",
                   join(clocks->reasons), clocks->sm_mhz_min.value, clocks->sm_mhz_max.value);
    }
  }

 private:
  // The first process's, as its rows are measured by it.
  void note_environment() {
    EnvironmentRecord& environment = results_.environment;
    if (environment.ceilings) {
      ceilings_ = ceilings_of(*environment.ceilings);
      return;
    }
    for (const auto& warning : version_warnings(environment.machine.versions)) {
      spdlog::warn("{}", warning);
    }
    if (options_.check_only) return;
    spdlog::info("measuring what this {} can do at most", to_string(device_));
    ceilings_ = measure_ceilings(context_);
    environment.ceilings = rates_of(ceilings_, device_);
  }

  void measure(const ProblemSelection& selection, size_t problem) {
    std::vector<const PassSelection*> selected;
    std::vector<Pass> passes;
    for (const PassSelection& each : selection.passes) {
      const size_t row = row_++;
      if (row < part_.first_row || (part_.only && row != part_.only->row)) continue;
      selected.push_back(&each);
      if (!each.candidates.empty()) passes.push_back(each.pass);
    }
    const Layer& layer = *selection.problem->layer;
    std::optional<CheckData> computed;
    const CheckData* check_data = nullptr;
    const Elapsed watch;
    if (!passes.empty() && part_.references) {
      check_data = &part_.references->of(layer, passes);
    } else if (!passes.empty()) {
      check_data = &computed.emplace(compute_reference(layer, passes, examines(selected)));
    }
    results_.spent->reference_s += watch.seconds();
    for (const PassSelection* each : selected) {
      measure(*selection.problem, problem, *each, check_data);
    }
  }

  void measure(const BenchProblem& problem, size_t number, const PassSelection& selection,
               const CheckData* check_data) {
    InterruptGuard::check();
    const Layer& layer = *problem.layer;
    const Pass pass = selection.pass;
    const std::vector<Candidate>& all = selection.candidates;
    std::vector<std::string> ids;
    for (const Candidate& each : all) ids.push_back(each.id);
    const std::string work = std::string(layer.type()) + " " + problem_argument(layer) + " " +
                             std::string(to_string(pass));
    sink_({.begins = BenchMessage::Begun{work, std::string(to_string(pass)), number, ids}});
    std::vector<PassMeasurement> measured(all.size());
    std::vector<Candidate> runs;  // those that this part leaves
    std::vector<size_t> places;
    for (size_t i = 0; i < all.size(); ++i) {
      if (part_.only && all[i].id != part_.only->id) continue;
      if (const BenchPart::Ended* ended = part_.find_ended(number, all[i].id)) {
        measured[i].examination.faults = {{FaultKind::kFailed, ended->text}};
        continue;
      }
      runs.push_back(all[i]);
      if (is_examined(all[i], pass)) runs.back().level = CheckLevel::kAgreement;
      places.push_back(i);
    }
    if (!runs.empty()) {
      spdlog::info("{}: {} implementation{}", work, runs.size(), runs.size() == 1 ? "" : "s");
      const Elapsed watch;
      auto results = measure_pass(runs, pass, *check_data, context_, plan(layer, selection));
      results_.spent->timing_s += watch.seconds();
      for (size_t i = 0; i < runs.size(); ++i) {
        note_spent(results[i]);
        if (results[i].examination.passed()) examined_.insert(class_of(runs[i], pass));
        if (!options_.check_only) {
          refuse_impossible_times(results[i],
                                  least_seconds(ceilings_, context_.device(), layer, pass));
        }
        measured[places[i]] = std::move(results[i]);
      }
    }
    const auto before = part_.environment ? part_.environment->clocks : std::nullopt;
    results_.environment.clocks = both(before, record_of(clocks_->report()));
    sink_({.results = results_, .row = row_of(problem, selection, measured)});
  }

  bool is_of_suites() const { return !options_.problems.suites.empty(); }

  // An implementation's rows in which it is taken to be examined by one examination of everything.
  static std::string class_of(const Candidate& candidate, Pass pass) {
    const Layer& layer = *candidate.layer;
    std::string text = candidate.id + " " + std::string(layer.type()) + " " +
                       std::string(to_string(pass)) + " " +
                       std::string(to_string(layer.options().math));
    for (const TensorDesc& x : layer.inputs()) {
      text += " " + std::string(to_string(x.dtype)) + " " + std::string(to_string(x.layout));
    }
    return text;
  }
  bool is_examined(const Candidate& candidate, Pass pass) const {
    return is_of_suites() && examined_.contains(class_of(candidate, pass));
  }
  // Whether any of them is still to be examined.
  bool examines(const std::vector<const PassSelection*>& selected) const {
    return std::any_of(selected.begin(), selected.end(), [&](const PassSelection* each) {
      return std::any_of(each->candidates.begin(), each->candidates.end(),
                         [&](const Candidate& one) { return !is_examined(one, each->pass); });
    });
  }

  void note_spent(const PassMeasurement& measured) {
    results_.spent->prepare_s += measured.prepare_seconds;
    results_.spent->examination_s += measured.examine_seconds;
    results_.spent->timing_s -= measured.prepare_seconds + measured.examine_seconds;
  }

  PassPlan plan(const Layer& layer, const PassSelection& selection) const {
    const bool brief = options_.quick && is_of_suites();
    return {.timing = brief            ? TimingPlan::brief()
                      : options_.quick ? TimingPlan::quick()
                                       : TimingPlan::full(),
            .cold = options_.cold,
            .times = !options_.check_only,
            .anew = !brief,
            .workspace_room = workspace_room(layer, selection, device_),
            .before_round = InterruptGuard::check,
            .child = part_.child};
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
                                  .floor_seconds = floor_of(layer, selection.pass),
                                  .repeat = repeat_command(layer, selection.pass) + how()},
                                 arms),
                    baseline,
                    {},
                    problem.suite,
                    problem.held_out};
    for (size_t i = 0; baseline && i < arms.size(); ++i) {
      if (i != *baseline) add_ratio(arms, i, *baseline, &row.ratios);
    }
    for (const PassSelection::Unsupported& each : selection.unsupported) {
      row.unsupported.push_back({each.id, each.reason});
      if (each.broken) row.unsupported.back().broken = true;
    }
    return row;
  }

  std::optional<double> floor_of(const Layer& layer, Pass pass) const {
    if (options_.check_only) return {};  // nothing was asked about the machine
    return floor_seconds(ceilings_, layer, pass);
  }

  static bool is_shared(const Layer& layer, const std::string& id) {
    const auto all = layer.implementations();
    return std::any_of(all.begin(), all.end(),
                       [&](const ImplInfo& info) { return info.id == id && info.shared; });
  }

  // The options that a row was measured with.
  std::string how() const {
    std::string text;
    // Ids with values, as custom_mine[BLOCK=64], are there in --tune alone.
    const bool tunes = !options_.impls.empty() && options_.impls[0].ends_with(']');
    if (tunes) text += " --tune";
    if (!options_.impls.empty() && !tunes) text += " --impl " + join(options_.impls, ",");
    if (options_.choice) text += " --choice";
    if ((options_.impls.empty() || tunes) && device_ == Device::kCpu) text += " --device cpu";
    if (options_.quick) text += " --quick";
    if (options_.cold) text += " --cold";
    if (options_.check_only) text += " --check-only";
    return text;
  }

  const BenchOptions& options_;
  const Device device_;
  const BenchPart& part_;
  const BenchSink& sink_;
  std::optional<ClockMonitor> clocks_;  // after the ceilings, which drive the machine to its limits
  Context context_;
  Ceilings ceilings_;
  BenchResults results_;            // all but the rows
  size_t row_ = 0;                  // the next one's number
  std::set<std::string> examined_;  // classes, in this process
};

}  // namespace

const CheckData& KeptReferences::of(const Layer& layer, const std::vector<Pass>& passes) {
  Kept& kept = kept_[&layer];
  std::vector<Pass> wanted = kept.passes;
  for (const Pass pass : passes) {
    if (std::find(wanted.begin(), wanted.end(), pass) == wanted.end()) wanted.push_back(pass);
  }
  if (wanted.size() > kept.passes.size()) kept = {wanted, compute_reference(layer, wanted, true)};
  return kept.check_data;
}

const BenchPart::Ended* BenchPart::find_ended(size_t problem, std::string_view id) const {
  for (const Ended& each : ended) {
    if (each.problem == problem && each.id == id) return &each;
  }
  return nullptr;
}

void measure_rows(const std::vector<ProblemSelection>& selections, const BenchOptions& options,
                  Device device, const BenchPart& part, const BenchSink& sink) {
  const Watchdog watchdog(options.patience);
  Bench(options, device, part, sink).run(selections);
}

}  // namespace duet
