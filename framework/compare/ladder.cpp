#include "compare/ladder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "compare/bench_tables.h"
#include "compare/fields.h"
#include "compare/format.h"
#include "compare/marked_text.h"
#include "compare/problem.h"
#include "core/error.h"
#include "train/run_folder.h"

namespace duet {

using nlohmann::json;
namespace fs = std::filesystem;

namespace {

constexpr const char* kEnd = "<!-- /bench -->";
constexpr const char* kMeasuredOn = "<!-- measured on the ";  // "gpu -->"

MarkedText read_marked_text(const Ladder& ladder) {
  return duet::read_marked_text(ladder.page, "<!-- bench:" + ladder.layer + " -->", kEnd);
}

// ---- the table ----

/// The rows of one problem, a pass each.
using ProblemRows = std::vector<const json*>;

std::vector<ProblemRows> by_problem(const json& results) {
  std::vector<ProblemRows> problems;
  const auto same = [](const json& a, const json& b) {
    return text_at(a, "layer") == text_at(b, "layer") && text_at(a, "type") == text_at(b, "type") &&
           text_at(a, "problem") == text_at(b, "problem");
  };
  for (const json& row : list(member(results, "rows"))) {
    if (problems.empty() || !same(*problems.back().front(), row)) problems.emplace_back();
    problems.back().push_back(&row);
  }
  return problems;
}

const json& arm_of(const json& row, const std::string& id, size_t* place) {
  static const json null;
  const json& arms = list(member(row, "arms"));
  for (*place = 0; *place < arms.size(); ++*place) {
    if (text_at(arms[*place], "implementation") == id) return arms[*place];
  }
  return null;
}

// "12.3 (211%)"; the fastest in bold.
std::string cell(const json& row, const std::string& id) {
  size_t place = 0;
  const json& arm = arm_of(row, id, &place);
  if (arm.is_null()) return kNotMeasured;
  const auto time = number_at(member(arm, "us"), "median");
  if (!time) return "wrong: " + text_at(element(member(arm, "faults"), 0), "kind");
  std::string text = format_significant(*time);
  if (place == 0) text = "**" + text + "**";
  if (number_at(row, "baseline") == static_cast<double>(place)) return text + " (100%)";
  for (const json& ratio : list(member(row, "ratios"))) {
    if (number_at(ratio, "a") != static_cast<double>(place)) continue;
    return text + " (" + shown(number_at(ratio, "speedup"), format_share) + ")";
  }
  return text;
}

// Fastest first in the first pass, then those that only have others.
std::vector<std::string> ids_of(const ProblemRows& rows) {
  std::vector<std::string> ids;
  for (const json* row : rows) {
    for (const json& arm : list(member(*row, "arms"))) {
      const std::string id = text_at(arm, "implementation");
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
  }
  return ids;
}

std::string baseline_of(const json& row) {
  const auto place = count_at(row, "baseline");
  if (!place) return "";
  return text_at(element(member(row, "arms"), place), "implementation");
}

std::string problem_table(const ProblemRows& rows) {
  const json& first = *rows.front();
  const std::string name = text_at(first, "layer");
  std::string text = (name.empty() ? "" : name + ": ") + "`" + shape_of(first) + "`\n\n|";
  std::string rule = "\n|---|";
  std::string floors = "| floor |";
  text += " |";
  for (const json* row : rows) {
    text += " " + text_at(*row, "pass") + ", % of `" + baseline_of(*row) + "` |";
    rule += "---:|";
    floors += " " + shown(number_at(*row, "floor_us"), format_significant) + " |";
  }
  text += rule + "\n";
  for (const std::string& id : ids_of(rows)) {
    text += "| `" + id + "` |";
    for (const json* row : rows) text += " " + cell(*row, id) + " |";
    text += "\n";
  }
  return text + floors + "\n\n";
}

std::string machine_text(const json& results) {
  const json& environment = member(results, "environment");
  std::vector<std::string> parts;
  const bool gpu = text_at(results, "device") == "gpu";
  parts.push_back(text_at(environment, gpu ? "gpu" : "cpu"));
  if (const std::string driver = text_at(environment, "driver"); gpu && !driver.empty()) {
    parts.push_back("driver " + driver);
  }
  for (const json& version : list(member(environment, "versions"))) {
    if (!gpu || !element(version, 0).is_string() || !element(version, 1).is_string()) continue;
    const std::string name = version[0], number = version[1];
    if (name == "NVIDIA driver") continue;
    parts.push_back(name + " " + number.substr(0, number.find(' ')));
  }
  const json& clocks = member(environment, "clocks");
  for (const json& reason : list(member(clocks, "reasons"))) {
    if (reason.is_string()) parts.push_back("slowed down by " + reason.get<std::string>());
  }
  parts.push_back("Duet " + text_at(environment, "duet"));
  parts.push_back(text_at(results, "date").substr(0, 10));
  return join(parts);
}

}  // namespace

Ladder find_ladder(const std::string& layer, const fs::path& from) {
  layer_type(layer);
  for (fs::path at = from;; at = at.parent_path()) {
    const fs::path folder = at / "framework" / "layers" / layer;
    if (fs::exists(folder / "README.md")) {
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

void write_ladder(const Ladder& ladder, const json& results) {
  write_file(ladder.page, read_marked_text(ladder).with(ladder_markdown(results)));
}

std::string ladder_markdown(const json& results) {
  std::string text = kMeasuredOn + text_at(results, "device") + " -->\n";
  for (const ProblemRows& rows : by_problem(results)) text += problem_table(rows);
  text += "Microseconds a call, the median with warm caches";
  if (is_true(results, "quick")) text += " (--quick)";
  text +=
      "; in brackets the speed beside the baseline's; `-` where an implementation cannot do it; "
      "the floor is what products or memory traffic take at this machine's measured ceilings.\n" +
      machine_text(results) + ": `" + text_at(results, "command") + "`\n";
  return text;
}

}  // namespace duet
