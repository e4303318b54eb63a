#include "compare/bench.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "compare/bench_tables.h"
#include "compare/fairness.h"
#include "compare/format.h"
#include "compare/ladder.h"
#include "compare/layer_rows.h"
#include "compare/outputs.h"
#include "compare/problem.h"
#include "compare/results.h"
#include "compare/sanitize.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "device/clock_monitor.h"
#include "device/stopwatch.h"
#include "layers/layers.h"
#include "net/table.h"

namespace duet {

using nlohmann::json;

namespace {

constexpr double kTellFlops = 2e9;  // the judge takes a second for about that

// ---- what is asked for ----

std::vector<std::string> known_ids() {
  std::vector<std::string> known = {"cpu", "custom", "cudnn"};
  for (const LayerType* type : layer_types()) {
    for (const ImplInfo& info : type->implementations()) {
      if (std::find(known.begin(), known.end(), info.id) == known.end()) {
        known.emplace_back(info.id);
      }
    }
  }
  return known;
}

void check_impls(const std::vector<std::string>& impls) {
  const auto known = known_ids();
  for (const std::string& name : impls) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto near = nearest(name, known);
    throw ConfigError("--impl " + name + ": no family or implementation of that name" +
                      (near ? " (did you mean '" + *near + "'?)" : "") +
                      "; 'trainer list impls' tells what there is");
  }
}

Device choose_device(const BenchOptions& options) {
  std::optional<Device> device = options.device;
  for (const std::string& name : options.impls) {
    const Device own = device_of(family_of(name));
    if (device && *device != own) {
      throw ConfigError("--impl " + name + " runs on the " + std::string(to_string(own)) +
                        ", the others on the " + std::string(to_string(*device)) +
                        "; times are compared on one device");
    }
    device = own;
  }
  if (device == Device::kGpu && !gpu_available()) {
    throw UnsupportedError("this needs a GPU: " + gpu_missing_reason("'--device cpu'"));
  }
  return device.value_or(gpu_available() ? Device::kGpu : Device::kCpu);
}

/// The passes of `problem` that `names` ask for.
std::vector<Pass> wanted_passes(const BenchProblem& problem,
                                const std::vector<std::string>& names) {
  if (names.empty()) return problem.passes;
  std::vector<Pass> passes;
  for (Pass pass : problem.passes) {
    const std::string_view name = to_string(pass);
    const bool wanted = std::any_of(names.begin(), names.end(), [&](const std::string& n) {
      return n == name || (n == "backward" && name.starts_with(n));
    });
    if (wanted) passes.push_back(pass);
  }
  return passes;
}

void check_passes(const std::vector<BenchProblem>& problems,
                  const std::vector<std::string>& names) {
  std::vector<std::string> known = {"backward"};
  for (const BenchProblem& problem : problems) {
    for (Pass pass : problem.passes) {
      const std::string name(to_string(pass));
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(name);
    }
  }
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    const auto near = nearest(name, known);
    throw ConfigError("--pass " + name + ": no such pass here" +
                      (near ? " (did you mean '" + *near + "'?)" : "") + "; there are " +
                      join(known));
  }
}

struct Selection {
  std::vector<Candidate> candidates;  // the baseline first: its ratios decide when to stop
  std::vector<bool> shared;
  std::vector<std::pair<std::string, std::string>> unsupported;  // id, reason
};

bool is_wanted(std::string_view id, const std::vector<std::string>& impls, Device device) {
  if (device_of(family_of(id)) != device) return false;
  return impls.empty() || std::any_of(impls.begin(), impls.end(), [&](const std::string& name) {
           return name == id || family_from(name) == family_of(id);
         });
}

Selection select(const Layer& layer, Pass pass, const std::vector<std::string>& impls,
                 Device device) {
  Selection selection;
  for (const ImplInfo& info : layer.implementations()) {
    if (!is_wanted(info.id, impls, device)) continue;
    if (const auto reason = layer.unsupported(info.id, pass)) {
      selection.unsupported.emplace_back(info.id, *reason);
    } else {
      selection.candidates.push_back({&layer, std::string(info.id)});
      selection.shared.push_back(info.shared);
    }
  }
  auto& all = selection.candidates;
  const auto baseline = std::find_if(all.begin(), all.end(), [](const Candidate& candidate) {
    return family_of(candidate.id) == Family::kCudnn;
  });
  if (baseline != all.end()) {
    const auto place = baseline - all.begin();
    auto& shared = selection.shared;
    std::rotate(all.begin(), baseline, baseline + 1);
    std::rotate(shared.begin(), shared.begin() + place, shared.begin() + place + 1);
  }
  return selection;
}

// ---- measuring ----

class Bench {
 public:
  Bench(const BenchOptions& options, Device device, std::ostream& out)
      : options_(options), device_(device), out_(out), context_(device), partial_(options.out) {
    results_ = {{"schema", kBenchSchema},      {"command", options.command},
                {"date", now_text()},          {"quick", options.quick},
                {"device", to_string(device)}, {"environment", environment_json()},
                {"rows", json::array()}};
  }

  // Rows that are finished stand in results() even if this throws.
  void run(const std::vector<BenchProblem>& problems) {
    const double start = now_seconds();
    for (const std::string& warning : version_lines(results_)) spdlog::warn("{}", warning);
    spdlog::info("measuring what this {} can do at most", to_string(device_));
    ceilings_ = measure_ceilings(context_);
    clocks_.emplace();
    results_["environment"]["ceilings"] = ceilings_json(ceilings_, device_);
    for (const BenchProblem& problem : problems) measure(problem);
    note_clocks();
    results_["seconds"] = now_seconds() - start;
  }

  json& results() { return results_; }

 private:
  void note_clocks() {
    const ClockReport report = clocks_->report();
    if (report.samples == 0) return;
    results_["environment"]["clocks"] = clocks_json(report);
    if (!report.reasons.empty()) {
      spdlog::warn("the GPU slowed down while this was measured: {}; its clock was {} to {} MHz",
                   join(report.reasons), report.sm_mhz_min, report.sm_mhz_max);
    }
  }

  void measure(const BenchProblem& problem) {
    const Layer& layer = *problem.layer;
    std::vector<Pass> passes = wanted_passes(problem, options_.passes);
    std::erase_if(passes, [&](Pass pass) {
      const Selection all = select(layer, pass, options_.impls, device_);
      return all.candidates.empty() && all.unsupported.empty();
    });
    if (passes.empty()) return;
    const bool any = std::any_of(passes.begin(), passes.end(), [&](Pass pass) {
      return !select(layer, pass, options_.impls, device_).candidates.empty();
    });
    std::optional<Evidence> evidence;
    if (any) evidence = judge(layer, passes);
    for (Pass pass : passes) measure(problem, pass, evidence ? &*evidence : nullptr);
  }

  Evidence judge(const Layer& layer, const std::vector<Pass>& passes) {
    double flops = 0;
    for (Pass pass : passes) flops += 2 * layer.flops(pass);  // two sets of data
    if (flops > kTellFlops) {
      spdlog::info("{} {}: the reference computes {} GFLOP in double", layer.type(),
                   problem_argument(layer), format_significant(flops / 1e9));
    }
    const double start = now_seconds();
    Evidence evidence =
        gather_evidence(layer, random_data(layer, 1), {}, passes, InterruptGuard::requested);
    if (flops > kTellFlops) {
      spdlog::info("done in {} on the {}", format_seconds(now_seconds() - start),
                   to_string(evidence.expected.device));
    }
    return evidence;
  }

  void measure(const BenchProblem& problem, Pass pass, const Evidence* evidence) {
    InterruptGuard::check();
    const Layer& layer = *problem.layer;
    if (!results_["rows"].empty() && partial_.due()) {
      partial_.write(results_, std::string(layer.type()) + " " + problem_argument(layer) + " " +
                                   std::string(to_string(pass)));
    }
    const Selection selection = select(layer, pass, options_.impls, device_);
    std::vector<PassMeasurement> measured;
    if (!selection.candidates.empty()) {
      spdlog::info("{} {} {}: {} implementations", layer.type(), problem_argument(layer),
                   to_string(pass), selection.candidates.size());
      measured = measure_pass(selection.candidates, pass, *evidence, context_, plan());
      const double least = least_seconds(ceilings_, context_.device(), layer, pass);
      for (PassMeasurement& each : measured) refuse_impossible_times(each, least);
    }
    json row = row_json(problem, pass, selection, measured);
    results_["rows"].push_back(row);
    if (!options_.json && options_.ladder.empty()) {
      out_ << bench_row_text(row) << "\n" << std::flush;
    }
  }

  PassPlan plan() const {
    return {.timing = options_.quick ? TimingPlan::quick() : TimingPlan::full(),
            .cold = options_.cold,
            .before_round = InterruptGuard::check};
  }

  json row_json(const BenchProblem& problem, Pass pass, const Selection& selection,
                const std::vector<PassMeasurement>& measured) const {
    std::vector<size_t> order;
    for (size_t i = 0; i < measured.size(); ++i) order.push_back(i);
    const auto time = [&](size_t i) {
      return measured[i].warm ? measured[i].warm->summary().median
                              : std::numeric_limits<double>::infinity();
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return time(a) < time(b); });
    std::vector<RowArm> arms;
    std::optional<size_t> baseline;  // the first of the candidates that was timed
    size_t baseline_candidate = measured.size();
    for (size_t i : order) {
      const Candidate& candidate = selection.candidates[i];
      if (measured[i].warm && i < baseline_candidate) {
        baseline = arms.size();
        baseline_candidate = i;
      }
      arms.push_back({candidate.layer, candidate.id, selection.shared[i], &measured[i]});
    }
    json row = layer_row({.name = problem.name,
                          .layer = problem.layer.get(),
                          .pass = pass,
                          .floor_seconds = floor_seconds(ceilings_, *problem.layer, pass),
                          .repeat = repeat_command(*problem.layer, pass) + how()},
                         arms);
    row["baseline"] = baseline ? json(*baseline) : json();
    for (size_t i = 0; baseline && i < arms.size(); ++i) {
      if (i == *baseline) continue;
      if (json ratio = ratio_json(arms, i, *baseline); !ratio.is_null()) {
        row["ratios"].push_back(ratio);
      }
    }
    row["unsupported"] = json::array();
    for (const auto& [id, reason] : selection.unsupported) {
      row["unsupported"].push_back({{"implementation", id}, {"reason", reason}});
    }
    return row;
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
  json results_;
};

// If nothing at all can be measured: with the reasons.
void check_any(const std::vector<BenchProblem>& problems, const BenchOptions& options,
               Device device) {
  std::string reasons;
  for (const BenchProblem& problem : problems) {
    for (Pass pass : wanted_passes(problem, options.passes)) {
      const Selection selection = select(*problem.layer, pass, options.impls, device);
      if (!selection.candidates.empty()) return;
      for (const auto& [id, reason] : selection.unsupported) {
        reasons += "\n" + std::string(problem.layer->type()) + " " + std::string(to_string(pass)) +
                   " " + id + ": " + reason;
      }
    }
  }
  throw UnsupportedError("nothing of this can be measured on the " +
                         std::string(to_string(device)) +
                         (reasons.empty() ? ": no such implementation of it runs there; 'trainer "
                                            "list impls' tells what there is"
                                          : ":" + reasons));
}

std::vector<ImplCall> calls_of(const std::vector<BenchProblem>& problems,
                               const BenchOptions& options, Device device) {
  std::vector<ImplCall> calls;
  for (const BenchProblem& problem : problems) {
    for (Pass pass : wanted_passes(problem, options.passes)) {
      for (const Candidate& each : select(*problem.layer, pass, options.impls, device).candidates) {
        calls.push_back({problem.layer.get(), pass, each.id});
      }
    }
  }
  return calls;
}

// --once and --sanitize.
ExitCode run_calls(const std::vector<ImplCall>& calls, const BenchOptions& options, Device device,
                   std::ostream& out) {
  const InterruptGuard guard;
  if (options.sanitize) {
    const char* path = std::getenv("PATH");
    const std::string sanitizer = find_sanitizer(path ? path : "");
    const std::string bench = std::filesystem::read_symlink("/proc/self/exe").string();
    return sanitize(calls, sanitizer, bench, out) ? kExitDone : kExitComparison;
  }
  Context context(device);
  for (const ImplCall& call : calls) {
    InterruptGuard::check();
    run_once(call, context);
    out << call.layer->type() << " " << problem_argument(*call.layer) << " " << to_string(call.pass)
        << " " << call.id << ": ran once\n";
  }
  return kExitDone;
}

// What does not fit is refused before anything is measured, as Linux would end the process later.
// `what` takes so much.
void check_fits(const Layer& layer, const std::string& what, double bytes, size_t memory,
                const std::string& advice) {
  if (bytes <= static_cast<double>(memory)) return;
  const auto gib = [](double size) { return format_significant(size / (1 << 30)) + " GiB"; };
  throw OutOfMemoryError(std::string(layer.type()) + " " + problem_argument(layer) + ": " + what +
                         " " + gib(bytes) + " of memory, and there is " +
                         gib(static_cast<double>(memory)) + "; " + advice);
}

// In units of the tensors that a pass moves in float32. The reference holds two sets of data in
// double, what comes of them and its sizes (2 * (2 + 2 + 2)). While times are taken every
// implementation has its tensors and their gradients.
void check_memory(const std::vector<BenchProblem>& problems, const BenchOptions& options,
                  Device device) {
  for (const BenchProblem& problem : problems) {
    const Layer& layer = *problem.layer;
    const double unit = least_bytes(layer);
    check_fits(layer, "the reference alone takes", 12 * unit, host_memory(),
               "choose a smaller batch or shape");
    for (Pass pass : wanted_passes(problem, options.passes)) {
      const size_t count = select(layer, pass, options.impls, device).candidates.size();
      const double side_by_side = 2 * unit * static_cast<double>(count);
      const bool gpu = device == Device::kGpu;
      check_fits(layer,
                 std::to_string(count) +
                     (count == 1 ? " implementation takes" : " implementations side by side take") +
                     (gpu ? " on the GPU" : ", beside the reference,"),
                 side_by_side + (gpu ? 0 : 12 * unit), gpu ? gpu_memory() : host_memory(),
                 "name fewer with --impl, or choose a smaller batch or shape");
    }
  }
}

// Measures; rows that are finished when something stops it are returned, with the reason. If there
// are none, this throws the reason.
json measure(const std::vector<BenchProblem>& problems, const BenchOptions& options, Device device,
             std::ostream& out, std::exception_ptr* stopped) {
  Bench bench(options, device, out);
  const InterruptGuard guard;
  try {
    bench.run(problems);
  } catch (const std::exception&) {
    *stopped = named_error();
    if (bench.results()["rows"].empty()) std::rethrow_exception(*stopped);
    bench.results()["stopped"] = message_of(*stopped);
  }
  return std::move(bench.results());
}

}  // namespace

int run_bench(const BenchOptions& options, std::ostream& out) {
  check_impls(options.impls);
  const Device device = choose_device(options);
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
  check_passes(problems, options.passes);
  check_any(problems, options, device);
  check_memory(problems, options, device);
  if (options.once || options.sanitize) {
    return run_calls(calls_of(problems, options, device), options, device, out);
  }
  std::exception_ptr stopped;
  const json results = measure(problems, options, device, out, &stopped);
  const ExitCode written =
      write_output(options.out, stopped ? "the rows measured so far are in" : "results:", [&] {
        return results_file_text(results);
      });
  const std::string faults = bench_faults_text(results);
  if (options.json) {
    out << json_text(results) << "\n";
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
