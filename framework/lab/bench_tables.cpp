#include "lab/bench_tables.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "compare/tables/distinct.h"
#include "compare/tables/table_cells.h"
#include "core/config.h"
#include "core/program.h"

namespace duet {
namespace {

// The largest share of its limit that any tensor of the arm uses.
std::string agreement_text(const MeasuredArm& arm) {
  if (arm.agrees != true) return arm.faults.empty() ? "" : arm.faults[0].kind;
  return "ok " + format_share(std::fmax(0, arm.worst_share()));
}

std::string percent(double value) {
  std::string text = format_share(value);
  text.pop_back();
  return text;
}

std::string head(const BenchRow& row) {
  return (row.layer.empty() ? "" : row.layer + ": ") + row.type + " " + row.pass + "\n" +
         row.problem + "\nfloor " + shown(row.floor_us, format_time) + ": " +
         (row.flops > 0 ? format_significant(row.flops / 1e6) + " MFLOP, " : "") +
         format_size(row.bytes) + "\n";
}

/// An arm that is right, and how it compares with the baseline.
struct ArmColumn {
  const MeasuredArm* arm;
  bool is_baseline;
  const ArmRatio* ratio;  // or nullptr
};

std::string row_table(const BenchRow& row) {
  std::vector<ArmColumn> arms;
  for (size_t i = 0; i < row.arms.size(); ++i) {
    if (!row.arm(i) || row.arm(i)->agrees != true) continue;
    const auto ratio = std::find_if(row.ratios.begin(), row.ratios.end(),
                                    [&](const ArmRatio& each) { return each.a == i; });
    arms.push_back({row.arm(i), row.baseline && *row.baseline == i,
                    ratio == row.ratios.end() ? nullptr : &*ratio});
  }
  const std::string baseline =
      row.baseline && row.arm(*row.baseline) ? row.arm(*row.baseline)->implementation : "baseline";
  const auto speed = [](const ArmColumn& timed) -> std::string {
    if (timed.is_baseline) return "100";
    return timed.ratio ? shown(timed.ratio->speedup, percent) : kNotMeasured;
  };
  const auto interval = [](const ArmColumn& timed) -> std::string {
    if (!timed.ratio) return kNotMeasured;
    return shown(timed.ratio->low, percent) + " to " + shown(timed.ratio->high, percent);
  };
  const auto workspace = [](const MeasuredArm& arm) {
    return arm.workspace_bytes > 0 ? format_size(arm.workspace_bytes) : kNotMeasured;
  };
  return console_text(TableOf(arms)
                          .words("implementation", of_arm(&MeasuredArm::implementation))
                          .words("agreement", of_arm(agreement_text))
                          .numbers("us", of_arm(&MeasuredArm::us))
                          .numbers("p20 to p80", of_arm(spread_of))
                          .numbers("cold us", of_arm(&MeasuredArm::cold_us))
                          .numbers("% of " + baseline, speed)
                          .numbers("95%", interval)
                          .words("verdict",
                                 [](const ArmColumn& timed) {
                                   return timed.ratio ? verdict_cell(timed.ratio->verdict)
                                                      : Cell{kNotMeasured};
                                 })
                          .numbers("% of floor", of_arm(&MeasuredArm::share_of_floor), percent)
                          .numbers("GFLOP/s", of_arm(&MeasuredArm::gflop_per_s))
                          .numbers("GB/s", of_arm(&MeasuredArm::gb_per_s))
                          .numbers("workspace", of_arm(workspace))
                          .words("detail", of_arm(&MeasuredArm::detail)));
}

// A row for each problem, a column for each implementation; the fastest is named at the end.
std::string scan_table(const std::vector<const BenchRow*>& rows) {
  TableOf<const BenchRow*> table(rows);
  table.words("problem", [](const BenchRow* row) { return shape_of(*row); });
  for (const std::string& id : ids_of(rows)) {
    table.numbers(id, [&](const BenchRow* row) -> std::string {
      for (const auto& arm : row->arms) {
        if (arm->implementation != id) continue;
        return arm->agrees == true ? shown(arm->us.median, format_significant) : "wrong";
      }
      return kNotMeasured;
    });
  }
  table.numbers("floor", &BenchRow::floor_us);
  table.words("fastest", [](const BenchRow* row) {
    const MeasuredArm* fastest = row->arm(0);
    return fastest && fastest->agrees == true ? fastest->implementation : "";
  });
  return console_text(table);
}

// "  implementation: why"
std::string note(const std::string& who, std::string why) {
  for (size_t at = 0; (at = why.find('\n', at)) != std::string::npos; at += 5) {
    why.replace(at, 1, "\n    ");
  }
  return "  " + who + ": " + why + "\n";
}

}  // namespace

std::string shape_of(const BenchRow& row) {
  std::istringstream words(row.repeat);
  for (std::string word; words >> word;) {
    if (word == "--shape" && words >> word) return word;
  }
  return row.problem;
}

std::vector<std::string> ids_of(const std::vector<const BenchRow*>& rows) {
  Distinct ids;
  for (const BenchRow* row : rows) {
    for (const auto& arm : row->arms) ids.add(arm->implementation);
  }
  return ids.texts();
}

std::string bench_row_text(const BenchRow& row) {
  std::string wrong, unable;
  for (const auto& arm : row.arms) {
    for (const FoundFault& fault : arm->faults) {
      const std::string picture = fault.picture.empty() ? "" : "\n" + fault.picture;
      const bool named = fault.text.starts_with(fault.kind + ":");
      wrong += note(arm->implementation + (named ? "" : ": " + fault.kind), fault.text + picture);
    }
  }
  for (const BenchRow::Unsupported& each : row.unsupported) {
    unable += note(each.implementation, each.reason);
  }
  return head(row) + row_table(row) + (wrong.empty() ? "" : "wrong, and not timed:\n" + wrong) +
         (unable.empty() ? "" : "cannot do this:\n" + unable) + "again: " + as_started(row.repeat) +
         "\n";
}

std::string bench_scan_text(const BenchResults& results) {
  std::map<std::string, std::vector<const BenchRow*>> by_pass;
  Distinct order;
  for (const BenchRow& row : results.rows) {
    order.add(row.type + " " + row.pass);
    by_pass[row.type + " " + row.pass].push_back(&row);
  }
  std::string text;
  for (const std::string& pass : order.texts()) {
    if (by_pass[pass].size() < 2) continue;
    text += pass + ", us\n" + scan_table(by_pass[pass]) + "\n";
  }
  return text;
}

std::string machine_text(const BenchResults& results) {
  const auto& [duet, machine, ceilings, clocks, load] = results.environment;
  const bool gpu = results.device == "gpu";
  std::vector<std::string> parts = {gpu ? machine.gpu : machine.cpu};
  if (gpu && !machine.driver.empty()) parts.push_back("driver " + machine.driver);
  for (const auto& [name, number] : machine.versions) {
    if (!gpu || name == "NVIDIA driver") continue;
    parts.push_back(name + " " + number.substr(0, number.find(' ')));
  }
  for (const std::string& reason : clocks ? clocks->reasons : std::vector<std::string>()) {
    parts.push_back("slowed down by " + reason);
  }
  parts.push_back("Duet " + duet);
  return join(parts);
}

std::string measured_on_text(const BenchResults& results) {
  return machine_text(results) + ", " + results.date.substr(0, 10) + ": `" + results.command + "`";
}

std::string bench_faults_text(const BenchResults& results) {
  std::vector<std::string> lines;
  for (const BenchRow& row : results.rows) {
    for (const auto& arm : row.arms) {
      if (arm->agrees == true) continue;
      lines.push_back(row.type + " " + row.pass + " " + arm->implementation + " (" +
                      agreement_text(*arm) + ")");
    }
  }
  return lines.empty() ? "" : "wrong: " + join(lines);
}

}  // namespace duet
