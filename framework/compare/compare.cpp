#include "compare/compare.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>

#include "compare/comparison.h"

#include "compare/report/report.h"
#include "compare/report/step_chart.h"
#include "compare/results/outputs.h"
#include "compare/results/results_json.h"
#include "compare/tables/markdown.h"
#include "compare/tables/marked_text.h"
#include "compare/tables/summary.h"
#include "compare/tables/tables.h"
#include "core/error.h"
#include "core/program.h"
#include "core/shell_word.h"
#include "net/table.h"
#include "user_kernels/kernel_compiler.h"

namespace duet {

namespace fs = std::filesystem;

namespace {

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

}  // namespace

void check_files(const CompareOptions& options) {
  std::vector<NamedFile> inputs = {{"--from", options.from}, {"--config", options.arms.config}};
  for (const std::string& arm : options.arms.requests) {
    std::error_code error;
    if (fs::exists(arm, error)) inputs.push_back({"arm " + arm, arm});
  }
  check_outputs({{"--out", options.out},
                 {"--report", options.report},
                 {"--svg", options.svg},
                 {"--markdown", options.markdown},
                 {"--into", options.into, true}},
                inputs);
}

namespace {

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
  if (!options.svg.empty() && options.from.empty() && !wants(options, "layers")) {
    throw ConfigError("--svg " + options.svg +
                      ": the picture shows the layers, and --only leaves 'layers' out");
  }
  check_files(options);
}

// The options, where a build that cannot write reports leaves the results for one that can.
CompareOptions with_report_possible(CompareOptions options) {
  if (options.report.empty() || report_available()) return options;
  if (!options.from.empty()) report_html(Results());  // throws what to do about it
  if (options.out.empty()) {
    options.out = fs::path(options.report).replace_extension(".json").string();
  }
  spdlog::warn(
      "this build has no chart library, so the report is not written; make it where there is one: "
      "{} --from {} --report {}",
      as_started("compare"), shell_word(options.out), shell_word(options.report));
  options.report.clear();
  check_files(options);
  return options;
}

// The page with the layers' table in it, if the layers were measured to the end.
std::string page_with_table(const std::string& page, const Results& results) {
  const auto& layers = results.layers;
  const bool whole =
      !layers.empty() && std::all_of(layers.begin(), layers.end(), [](const auto& batch) {
        return !batch.rows.empty() && !batch.totals.empty();
      });
  if (!whole) {
    throw DataError(page +
                    ": nothing was written there, as the section 'layers', whose table belongs "
                    "there, is missing from these results or was not finished");
  }
  return read_marked_text(page).with(results_summary(results));
}

// The exit code of the last that failed.
ExitCode write(const CompareOptions& options, const Results& results) {
  ExitCode code = kExitDone;
  const auto add = [&](const std::string& file, const char* what,
                       const std::function<std::string()>& make) {
    if (const ExitCode one = write_output(file, what, make); one != kExitDone) code = one;
  };
  add(options.out, "results:", [&] { return file_text(to_json(results)); });
  add(options.markdown, "the same as Markdown:", [&] { return results_markdown(results); });
  add(options.into, "the layers' table: in",
      [&] { return page_with_table(options.into, results); });
  add(options.report, "report, for a browser:", [&] { return report_html(results); });
  add(options.svg, "a picture of a step:", [&] { return step_chart_svg(results); });
  return code;
}

void print(const CompareOptions& options, const Results& results) {
  if (options.json) {
    std::printf("%s\n", json_text(to_json(results)).c_str());
  } else {
    std::fputs(results_text(results).c_str(), stdout);
  }
}

}  // namespace

const std::vector<std::string>& compare_sections() {
  static const std::vector<std::string> names = {"layers", "training", "throughput"};
  return names;
}

int run_compare(const CompareOptions& asked) {
  const FailOn fail_on = read_fail_on(asked.fail_on);
  check_options(asked);
  set_compiler_patience(asked.patience);
  const CompareOptions options = with_report_possible(asked);
  std::exception_ptr stopped;
  const Results results =
      options.from.empty() ? measure_comparison(options, &stopped) : load_results(options.from);
  const ExitCode written = write(options, results);
  print(options, results);
  if (stopped) std::rethrow_exception(stopped);
  const std::vector<std::string> reasons = failures(results, fail_on);
  for (const std::string& reason : reasons) spdlog::error("--fail-on: {}", reason);
  if (written != kExitDone) return written;
  return reasons.empty() ? kExitDone : kExitComparison;
}

}  // namespace duet
