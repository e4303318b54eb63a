#include "lab/bench.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "compare/measure/measuring_child.h"
#include "compare/results/outputs.h"
#include "compare/results/problem.h"
#include "compare/results/records.h"
#include "compare/results/results_json.h"
#include "compare/tables/distinct.h"
#include "compare/tables/format.h"
#include "core/command.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/running.h"
#include "core/write_file.h"
#include "device/stopwatch.h"
#include "lab/bench_rows.h"
#include "lab/bench_selection.h"
#include "lab/bench_tables.h"
#include "lab/kernel_tools.h"
#include "lab/ladder.h"
#include "lab/puzzle.h"
#include "lab/sanitize.h"
#include "lab/suite_summary.h"
#include "lab/tune.h"
#include "lab/watch.h"
#include "net/table.h"
#include "user_kernels/kernel_compiler.h"
#include "user_kernels/user_kernels.h"

namespace duet {

namespace fs = std::filesystem;

namespace {

// Beside the page of a summary: what it was made of.
std::string beside(const std::string& page) {
  return page.empty() ? "" : fs::path(page).replace_extension(".json").string();
}

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

/// What is measured, as far as the command line and the machine allow it.
struct Selected {
  Device device;
  std::vector<BenchProblem> problems;
  std::vector<ProblemSelection> selections;
};

// Throws what keeps it from being measured.
Selected select(const BenchOptions& options, const std::optional<Ladder>& ladder) {
  Selected all{.device = choose_device(options.impls, options.device)};
  if (options.ncu && all.device == Device::kCpu) {
    throw UnsupportedError("--ncu profiles a GPU's kernels, and there is none that runs here");
  }
  if (options.sanitize && all.device == Device::kCpu) {
    throw UnsupportedError(
        "--sanitize runs a GPU's kernels under compute-sanitizer; the CPU's code is checked by "
        "'./duet test --preset sanitize'");
  }
  ProblemSource source = options.problems;
  if (ladder) {
    source.shapes = ladder->shapes.string();
    if (options.write && options.ncu) check_bounds(*ladder);
    if (options.write && !options.ncu) check_ladder(*ladder, all.device, options.force);
  }
  all.problems = read_problems(source, all.device);
  check_outputs({{"--out", options.out},
                 {"--summary", options.summary},
                 {"--summary", beside(options.summary)},
                 {"--write", options.write && ladder ? ladder->page.string() : "", true}},
                {{"--config", source.config}, {"--shapes", source.shapes}});
  for (const auto& kernels : loaded_kernels()) {
    const auto& file = kernels->file();
    const bool asked = std::any_of(
        all.problems.begin(), all.problems.end(),
        [&](const BenchProblem& problem) { return problem.layer->type() == file.type; });
    if (asked && file.device != all.device) {
      const bool cpu = file.device == Device::kCpu;
      spdlog::warn("{} {} is left out, neither compiled nor checked: it runs on the {}{}",
                   file.type, file.id, cpu ? "CPU" : "GPU",
                   cpu                ? ", by --device cpu"
                   : !gpu_available() ? ", and there is none; --watch compiles it all the same"
                                      : "");
    }
  }
  const bool choice = options.choice || (!source.suites.empty() && options.impls.empty());
  all.selections = select(all.problems, options.passes, options.impls, all.device, choice);
  check_memory(all.selections, all.device);
  return all;
}

/// Measures, in this process or in children, and gathers what is told of it: prints each row, and
/// writes the rows so far to the results' file.
class Measuring {
 public:
  Measuring(const BenchOptions& options, const std::optional<Ladder>& ladder, std::ostream& out)
      : options_(options), ladder_(ladder), out_(out), partial_(options.out) {}

  /// Of a measurement before this one, on this machine.
  void set_environment(const std::optional<EnvironmentRecord>& environment) {
    part_.environment = environment;
  }

  /// Rows that are finished when something stops it are returned, with the reason. If there are
  /// none, this throws the reason. REQUIRES: an InterruptGuard.
  BenchResults run(std::exception_ptr* stopped) {
    const Elapsed watch;
    try {
      options_.isolate ? measure_in_children() : measure_here();
      results_.seconds = watch.seconds();
    } catch (const std::exception&) {
      *stopped = named_error();
      if (results_.rows.empty()) std::rethrow_exception(*stopped);
      results_.stopped = message_of(*stopped);
    }
    return std::move(results_);
  }

 private:
  void measure_here() {
    const Selected all = select(options_, ladder_);
    measure_rows(all.selections, options_, all.device, part_,
                 [this](const BenchMessage& message) { take(message); });
  }

  // Where an implementation ends its process, the others are measured by the next one.
  void measure_in_children() {
    for (;;) {
      part_.first_row = results_.rows.size();
      if (!results_.date.empty()) part_.environment = results_.environment;
      begun_ = {};
      const ChildEnd end = run_child(part_, [this](const BenchMessage& message) { take(message); });
      if (end.finished) return;
      InterruptGuard::check();
      BenchPart::Ended ended = find_culprit(end);
      if (!begun_ && results_.rows.size() > part_.first_row) {
        spdlog::warn("between two rows the measuring process {}; another one goes on", end.text());
        continue;
      }
      if (ended.id.empty()) {
        const std::string work = begun_ ? begun_->work : "before the first row";
        const std::string text = work + ": the measuring process " + end.text();
        const bool again = begun_ && repeated_ != results_.rows.size();
        if (!again) throw RunError(text);
        repeated_ = results_.rows.size();
        spdlog::warn("{}; none of its implementations did so alone, and it is measured again",
                     text);
        continue;
      }
      spdlog::warn("{}: {} {}; the others are measured without it", begun_->work, ended.id,
                   ended.text);
      ended.text += ", and was not run again";
      part_.ended.push_back(std::move(ended));
    }
  }

  ChildEnd run_child(BenchPart part, const BenchSink& sink) const {
    part.child = true;
    const auto measure = [&](const Send& send) {
      const Selected all = select(options_, ladder_);
      measure_rows(all.selections, options_, all.device, part, [&](const BenchMessage& message) {
        send(json_text(JsonWriter::write(message)));
      });
    };
    return measure_in_child(measure, [&](const std::string& text) {
      sink(JsonReader::read<BenchMessage>(nlohmann::json::parse(text)));
    });
  }

  // Who hangs is named by its own process. All else may also come of what another one did before to its
  // memory, by a thread or by a timer, so that they are run one by one then.
  BenchPart::Ended find_culprit(const ChildEnd& end) const {
    if (!begun_) return {};
    std::vector<std::string> ids = begun_->ids;
    std::erase_if(
        ids, [&](const std::string& id) { return part_.find_ended(begun_->problem.value, id); });
    const auto named = std::find_if(ids.begin(), ids.end(), [&](const std::string& id) {
      return end.note.empty() ? id == Running::last_id() : end.note.starts_with(id + " ");
    });
    const auto ended = [&](const std::string& id, std::string text) {
      if (text.starts_with(id + " ")) text.erase(0, id.size() + 1);
      return BenchPart::Ended{static_cast<size_t>(begun_->problem.value), id, text};
    };
    const bool is_named = named != ids.end();
    if (is_named && (!end.note.empty() || ids.size() == 1)) return ended(*named, end.text());
    if (is_named) std::rotate(ids.begin(), named, named + 1);
    for (const std::string& id : ids) {
      spdlog::info("{}: {} alone", begun_->work, id);
      BenchPart alone = part_;
      alone.only = {results_.rows.size(), id};
      alone.environment = results_.environment;
      const ChildEnd again = run_child(alone, [](const BenchMessage&) {});
      InterruptGuard::check();
      const bool own_timer = again.timer && end.is_untimely();
      if (!again.finished || own_timer) return ended(id, again.text());
    }
    if (!is_named || end.is_untimely()) return {};
    return ended(ids[0], end.text() + " beside the others, and not alone");
  }

  void take(const BenchMessage& message) {
    if (message.results) {
      BenchResults results = *message.results;
      results.rows = std::move(results_.rows);
      if (!results_.date.empty()) results.date = results_.date;  // of the first process
      results_ = std::move(results);
    }
    if (message.begins) {
      begun_ = message.begins;
      if (!results_.rows.empty() && partial_.due()) {
        partial_.write(to_json(results_), begun_->work);
      }
    }
    if (!message.row) return;
    results_.rows.push_back(*message.row);
    begun_ = {};
    if (options_.json || ladder_) return;
    out_ << bench_row_text(*message.row) << "\n" << std::flush;
  }

  const BenchOptions& options_;
  const std::optional<Ladder>& ladder_;
  std::ostream& out_;
  PartialResults partial_;
  BenchPart part_;
  BenchResults results_;
  std::optional<BenchMessage::Begun> begun_;  // the row in work
  std::optional<size_t> repeated_;            // that ended a process, and nobody knows why
};

}  // namespace

BenchResults measure_bench(const BenchOptions& options,
                           const std::optional<EnvironmentRecord>& environment,
                           std::exception_ptr* stopped) {
  const std::optional<Ladder> none;
  std::ostream nowhere(nullptr);
  Measuring measuring(options, none, nowhere);
  measuring.set_environment(environment);
  return measuring.run(stopped);
}

namespace {

ExitCode write_summary(const BenchOptions& options, const SuiteResults& results) {
  const ExitCode written = write_output(beside(options.summary), "rows of the summary:", [&] {
    return file_text(JsonWriter::write(results));
  });
  if (written != kExitDone) return written;
  return write_output(options.summary,
                      "the summary:", [&] { return suite_summary_markdown(results); });
}

// --write of suites.
std::string suites_page() {
  for (fs::path at = fs::current_path();; at = at.parent_path()) {
    const fs::path results = at / "docs" / "results";
    if (fs::is_directory(results) && fs::is_directory(at / "framework")) {
      return (results / "suites.md").string();
    }
    if (at == at.parent_path()) break;
  }
  throw ConfigError("--write: there is no docs/results above " + fs::current_path().string() +
                    "; run it in Duet's source tree, or name a page by --summary");
}

// The files of --from but for `rows`.
std::vector<NamedFile> inputs_without(const std::string& rows,
                                      const std::vector<std::string>& from) {
  std::vector<NamedFile> inputs;
  for (const std::string& file : from) {
    if (rows.empty() || !same_file(file, rows)) inputs.push_back({"--from", file});
  }
  return inputs;
}

// Of what was measured before.
int summarise_suites(const BenchOptions& options, std::ostream& out) {
  const std::string rows = beside(options.summary);
  // The rows of the page may be among what it is made of.
  check_outputs({{"--summary", options.summary}, {"--summary", rows}},
                inputs_without(rows, options.from));
  const SuiteResults all = read_suite_results(options.from);
  const std::string text = suite_summary_text(all);
  if (text.empty()) {
    throw DataError(join(options.from) +
                    ": there is nothing to compare: each row was measured by one family alone, or "
                    "by one implementation");
  }
  out << text;
  return write_summary(options, all);
}

}  // namespace

namespace {

// Where all but the library's were right.
void write_table(const Ladder& ladder, const BenchResults& results) {
  if (!can_be_written(results)) return;
  write_ladder(ladder, results);
  spdlog::info("wrote the table in {}", ladder.page.string());
}

// bench --ladder LAYER --from FILE...: the table of parts that were measured one after the other.
int join_ladder(const BenchOptions& options, std::ostream& out) {
  const Ladder ladder = find_ladder(options.ladder);
  const std::vector<BenchResults> parts = read_bench_results(options.from);
  const Device device = parts[0].device == to_string(Device::kGpu) ? Device::kGpu : Device::kCpu;
  if (options.write) {
    check_ladder(ladder, device, options.force);
    check_outputs({{"--write", ladder.page.string(), true}}, inputs_without("", options.from));
  }
  ProblemSource source;
  source.shapes = ladder.shapes.string();
  const BenchResults whole = joined_parts(parts, read_problems(source, device));
  out << ladder_markdown(whole);
  const std::string faults = bench_faults_text(whole);
  if (!faults.empty()) spdlog::error("{}", faults);
  if (options.write) write_table(ladder, whole);
  return faults.empty() ? kExitDone : kExitComparison;
}

// bench --ladder LAYER --ncu: what bounds each rung, and with --write into the layer's page.
int profile_ladder(const BenchOptions& options, const Ladder& ladder,
                   const std::vector<ImplCall>& calls, std::ostream& out) {
  const std::vector<std::string> found = find_bounds(calls, options, ladder, out);
  std::vector<LadderBound> bounds;
  for (size_t i = 0; i < calls.size(); ++i) {
    bounds.push_back({problem_argument(*calls[i].layer), std::string(to_string(calls[i].pass)),
                      calls[i].id, found[i]});
  }
  const std::string text =
      bounds_markdown(bounds, environment_record(), options.command, now_text());
  out << "\n" << text;
  if (!options.write) return kExitDone;
  write_bounds(ladder, text);
  spdlog::info("wrote what bounds the kernels into {}", ladder.page.string());
  return kExitDone;
}

// The implementations whose files cannot be compiled, as their rows say.
std::string broken_files_of(const BenchResults& results) {
  Distinct names;
  for (const BenchRow& row : results.rows) {
    for (const BenchRow::Unsupported& each : row.unsupported) {
      if (each.broken) names.add(row.type + " " + each.implementation);
    }
  }
  return join(names.texts());
}

}  // namespace

int run_bench(const BenchOptions& given, std::ostream& out) {
  BenchOptions options = given;
  set_compiler_patience(options.patience);
  const bool of_suites = !given.problems.suites.empty() || !given.from.empty();
  if (given.write && given.ladder.empty() && of_suites && given.summary.empty()) {
    options.summary = suites_page();
  }
  if (!options.from.empty()) {
    return options.ladder.empty() ? summarise_suites(options, out) : join_ladder(options, out);
  }
  if (options.watch) return watch_kernels(options, out);
  if (options.tune) return tune_kernels(options, out);
  if (!options.puzzle.empty()) return run_puzzle(options, out);
  if (options.sass) {
    show_machine_code(options, path_variable(), out);
    return kExitDone;
  }
  std::optional<Ladder> ladder;
  if (!options.ladder.empty()) ladder = find_ladder(options.ladder);
  if (options.sanitize || options.once || options.ncu) {
    const Selected all = select(options, ladder);
    const auto calls = calls_of(all.selections);
    if (options.ncu && ladder) return profile_ladder(options, *ladder, calls, out);
    if (options.ncu) {
      profile_calls(calls, out);
      return kExitDone;
    }
    return options.sanitize ? sanitize(calls, out) : run_once(calls, all.device, out);
  }
  std::exception_ptr stopped;
  const BenchResults results = [&] {
    const InterruptGuard guard;
    return Measuring(options, ladder, out).run(&stopped);
  }();
  ExitCode written =
      write_output(options.out, stopped ? "the rows measured so far are in" : "results:", [&] {
        return file_text(to_json(results));
      });
  const std::string faults = bench_faults_text(results);
  if (options.json) {
    out << json_text(to_json(results)) << "\n";
  } else if (!options.problems.suites.empty()) {
    out << suite_summary_text(suite_results(results));
    if (const auto& spent = results.spent) {
      spdlog::info("{} rows took {}: references {}, preparing {}, examining {}, timing {}",
                   results.rows.size(), format_seconds(results.seconds),
                   format_seconds(spent->reference_s), format_seconds(spent->prepare_s),
                   format_seconds(spent->examination_s), format_seconds(spent->timing_s));
    }
  } else {
    out << (ladder ? ladder_markdown(results) : bench_scan_text(results));
  }
  if (written == kExitDone && !stopped) written = write_summary(options, suite_results(results));
  if (!faults.empty()) spdlog::error("{}", faults);
  if (stopped) std::rethrow_exception(stopped);
  if (ladder && options.write) write_table(*ladder, results);
  if (written != kExitDone) return written;
  if (!faults.empty()) return kExitComparison;
  const std::string broken = broken_files_of(results);
  if (broken.empty()) return kExitDone;
  spdlog::error("cannot be compiled, and were not measured: {}", broken);
  return kExitUnsupported;
}

}  // namespace duet
