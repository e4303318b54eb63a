#include "lab/ladder.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <vector>

#include "compare/results/problem.h"
#include "compare/tables/format.h"
#include "compare/tables/marked_text.h"
#include "core/config.h"
#include "core/error.h"
#include "lab/bench_tables.h"
#include "train/run/run_folder.h"

namespace duet {

namespace fs = std::filesystem;

namespace {

std::string first_line(const std::string& layer) { return "<!-- bench:" + layer + " -->"; }
constexpr const char* kEnd = "<!-- /bench -->";
constexpr const char* kMeasuredOn = "<!-- measured on the ";  // "gpu -->"

MarkedText read_marked_text(const Ladder& ladder) {
  return duet::read_marked_text(ladder.page, first_line(ladder.layer), kEnd);
}

MarkedText read_marked_bounds(const Ladder& ladder) {
  return duet::read_marked_text(ladder.page, "<!-- ncu:" + ladder.layer + " -->", "<!-- /ncu -->");
}

// ---- what bounds the kernels ----

constexpr const char* kBoundsHead =
    "| problem | pass | implementation | bound by |\n|---|---|---|---|\n";

// "| `n=64,in=5,out=3` | forward | `custom_naive` |" of a row of bounds; empty of another line.
std::string counted_call(const std::string& row) {
  if (!row.starts_with("| `")) return "";
  size_t end = 0;
  for (int cells = 0; cells < 3 && end != std::string::npos; ++cells) end = row.find('|', end + 1);
  return row.substr(0, end);
}

// The tables in `text`, each with what stands behind it, without the rows of `fresh`.
std::string bounds_beside(const std::string& fresh, std::string text) {
  std::erase(text, '\r');
  std::set<std::string> counted;
  std::istringstream rows(fresh);
  for (std::string row; std::getline(rows, row);) counted.insert(counted_call(row));
  std::string kept;
  for (size_t at = text.find(kBoundsHead), next; at != std::string::npos; at = next) {
    next = text.find(kBoundsHead, at + 1);
    std::string table;
    bool any = false;
    std::istringstream lines(text.substr(at, next - at));
    for (std::string line; std::getline(lines, line);) {
      const std::string call = counted_call(line);
      if (!call.empty() && counted.contains(call)) continue;
      any |= !call.empty();
      table += line + "\n";
    }
    if (!any) continue;
    kept += table + (table.ends_with("\n\n") ? "" : "\n");
  }
  return kept;
}

// ---- the table ----

/// The rows of one problem, a pass each.
using ProblemRows = std::vector<const BenchRow*>;

std::vector<ProblemRows> by_problem(const BenchResults& results) {
  std::vector<ProblemRows> problems;
  const auto name_of = [](const BenchRow& row) {
    return std::tie(row.layer, row.type, row.problem);
  };
  for (const BenchRow& row : results.rows) {
    if (problems.empty() || name_of(*problems.back().front()) != name_of(row)) {
      problems.emplace_back();
    }
    problems.back().push_back(&row);
  }
  return problems;
}

// "12.3 (211%)"; the fastest in bold.
std::string cell(const BenchRow& row, const std::string& id) {
  const auto found = std::find_if(row.arms.begin(), row.arms.end(),
                                  [&](const auto& arm) { return arm->implementation == id; });
  if (found == row.arms.end()) return kNotMeasured;
  const MeasuredArm& arm = **found;
  const auto place = static_cast<size_t>(found - row.arms.begin());
  if (!arm.us.known()) return "wrong: " + (arm.faults.empty() ? "" : arm.faults[0].kind);
  std::string text = format_significant(arm.us.median);
  if (place == 0) text = "**" + text + "**";
  if (row.baseline && *row.baseline == place) return text + " (100%)";
  for (const ArmRatio& ratio : row.ratios) {
    if (ratio.a == place) return text + " (" + shown(ratio.speedup, format_share) + ")";
  }
  return text;
}

std::string problem_table(const ProblemRows& rows) {
  const BenchRow& first = *rows.front();
  std::string text =
      (first.layer.empty() ? "" : first.layer + ": ") + "`" + shape_of(first) + "`\n\n| |";
  std::string rule = "\n|---|", floors = "| floor |";
  for (const BenchRow* row : rows) {
    text += " " + row->pass + ", % of `" +
            (row->baseline ? row->arm(*row->baseline)->implementation : "") + "` |";
    rule += "---:|";
    floors += " " + shown(row->floor_us, format_significant) + " |";
  }
  text += rule + "\n";
  for (const std::string& id : ids_of(rows)) {  // fastest first in the first pass
    text += "| `" + id + "` |";
    for (const BenchRow* row : rows) text += " " + cell(*row, id) + " |";
    text += "\n";
  }
  return text + floors + "\n\n";
}

bool tells_of(const BenchRow& row, std::string_view id) {
  const auto is_it = [&](const auto& one) { return one.implementation == id; };
  return std::any_of(row.arms.begin(), row.arms.end(),
                     [&](const auto& arm) { return is_it(*arm); }) ||
         std::any_of(row.unsupported.begin(), row.unsupported.end(), is_it);
}

// The folder of its name, or the one whose page has its table: batch_norm has batch_norm2d's.
fs::path folder_of(const std::string& layer, const fs::path& layers) {
  if (fs::exists(layers / layer / "README.md")) return layers / layer;
  for (const auto& folder : fs::directory_iterator(layers)) {
    const fs::path page = folder.path() / "README.md";
    if (!fs::exists(page)) continue;
    std::ifstream in(page);
    for (std::string line; std::getline(in, line);) {
      if (line == first_line(layer)) return folder.path();
    }
  }
  return {};
}

}  // namespace

Ladder find_ladder(const std::string& layer, const fs::path& from) {
  layer_type(layer);
  for (fs::path at = from;; at = at.parent_path()) {
    const fs::path layers = at / "framework" / "layers";
    const fs::path folder = fs::is_directory(layers) ? folder_of(layer, layers) : fs::path();
    if (!folder.empty()) {
      const Ladder ladder = {layer, folder / "README.md", folder / "bench.yaml"};
      if (!fs::exists(ladder.shapes)) {
        throw ConfigError(ladder.shapes.string() +
                          ": there is no such file; it lists the shapes of the table, as a file "
                          "for 'bench --shapes' does");
      }
      return ladder;
    }
    if (at == at.parent_path()) break;
  }
  throw ConfigError("--ladder " + layer + ": there is no framework/layers/" + layer + " above " +
                    from.string() + "; run it in Duet's source tree");
}

void check_ladder(const Ladder& ladder, Device device, bool force) {
  const std::string table = read_marked_text(ladder).text();
  const bool gpu = table.find(std::string(kMeasuredOn) + "gpu") != std::string::npos;
  if (gpu && device == Device::kCpu && !force) {
    throw ConfigError(ladder.page.string() +
                      ": its table holds a GPU's numbers, and these would be a CPU's; run it on a "
                      "machine with a GPU, or add --force");
  }
}

bool can_be_written(const BenchResults& results) {
  for (const BenchRow& row : results.rows) {
    for (const auto& arm : row.arms) {
      if (arm->is_wrong() && family_of(arm->implementation) != Family::kCudnn) return false;
    }
  }
  return true;
}

BenchResults joined_parts(const std::vector<BenchResults>& parts,
                          const std::vector<BenchProblem>& problems) {
  const auto measured_by = [](BenchResults part) {
    part.environment.clocks.reset();
    return machine_text(part) + (part.quick ? " with --quick" : "");
  };
  BenchResults whole = parts.front();
  whole.rows.clear();
  for (size_t i = 1; i < parts.size(); ++i) {
    if (measured_by(parts[i]) != measured_by(whole)) {
      throw DataError("a table is of one machine, one Duet and one way of timing, and '" +
                      parts[i].command + "' was measured on " + measured_by(parts[i]) + ", '" +
                      parts[0].command + "' on " + measured_by(whole));
    }
    whole.command += "`, `" + parts[i].command;
    whole.date = parts[i].date;
  }
  std::vector<BenchRow> rows;
  for (const BenchResults& part : parts) {
    rows.insert(rows.end(), part.rows.begin(), part.rows.end());
  }
  std::map<std::string, std::vector<std::string>> missing;  // the problems, by pass
  for (const BenchProblem& problem : problems) {
    for (Pass pass : problem.passes) {
      const auto found = std::find_if(rows.begin(), rows.end(), [&](const BenchRow& row) {
        return row.type == problem.layer->type() && row.layer == problem.name &&
               row.problem == problem.layer->problem_text() && row.pass == to_string(pass);
      });
      if (found == rows.end()) {
        missing[std::string(to_string(pass))].push_back(problem_argument(*problem.layer));
        continue;
      }
      for (const ImplInfo& info : problem.layer->implementations()) {
        if (to_string(device_of(family_of(info.id))) == whole.device &&
            !tells_of(*found, info.id)) {
          throw DataError("a table has every implementation, and in " +
                          std::string(to_string(pass)) + " of " + problem_argument(*problem.layer) +
                          " " + std::string(info.id) + " was left out: measure it without --impl");
        }
      }
      whole.rows.push_back(*found);
    }
  }
  std::vector<std::string> parts_missing;
  for (const auto& [pass, of] : missing) {
    parts_missing.push_back(pass + " of " +
                            (of.size() == problems.size() ? "all problems" : join(of, " and ")));
  }
  if (!missing.empty()) {
    throw DataError("none of the files has " + join(parts_missing, "; ") +
                    ": measure it with --ladder and --out, and name that file too");
  }
  return whole;
}

void write_ladder(const Ladder& ladder, const BenchResults& results) {
  write_file(ladder.page, read_marked_text(ladder).with(ladder_markdown(results)));
}

std::string bounds_markdown(const std::vector<LadderBound>& bounds,
                            const EnvironmentRecord& environment, const std::string& command,
                            const std::string& date) {
  std::string text = kBoundsHead;
  for (const LadderBound& bound : bounds) {
    text += "| `" + bound.problem + "` | " + bound.pass + " | `" + bound.implementation + "` | " +
            (bound.text.empty() ? kNotMeasured : bound.text) + " |\n";
  }
  BenchResults where;
  where.device = "gpu";
  where.environment = environment;
  where.command = command;
  where.date = date;
  return text +
         "\nThe unit that came nearest to its peak, as Nsight Compute counted, from empty "
         "caches; of what DRAM moved, stores that stay in the L2 cache are not counted.\n" +
         measured_on_text(where) + "\n";
}

void check_bounds(const Ladder& ladder) { read_marked_bounds(ladder); }

void write_bounds(const Ladder& ladder, const std::string& markdown) {
  const MarkedText marked = read_marked_bounds(ladder);
  write_file(ladder.page, marked.with(bounds_beside(markdown, marked.text()) + markdown));
}

std::string ladder_markdown(const BenchResults& results) {
  std::string text = kMeasuredOn + results.device + " -->\n";
  for (const ProblemRows& rows : by_problem(results)) text += problem_table(rows);
  text += "Microseconds a call, the median with warm caches";
  if (results.quick) text += " (--quick)";
  text +=
      "; in brackets the speed beside the baseline's; `-` where an implementation cannot do it; "
      "the floor is what products or memory traffic take at this machine's measured ceilings.\n" +
      measured_on_text(results) + "\n";
  return text;
}

}  // namespace duet
