#include "lab/watch_text.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compare/results/records.h"
#include "compare/results/results_json.h"
#include "compare/tables/format.h"
#include "core/descriptor.h"
#include "core/error.h"
#include "core/input_file.h"
#include "measure/time/statistics.h"
#include "net/json_file.h"
#include "net/table.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr uint64_t kMostHistory = 64 << 20;

std::string gain_text(double before, double now) {
  const double gain = 100 * (before / now - 1);
  return (gain < 0 ? "" : "+") + format_significant(std::round(10 * gain) / 10) + "%";
}

// "16:20:03" of "2026-11-21T16:20:03Z"
std::string clock_of(const std::string& time) {
  return time.size() == 20 ? time.substr(11, 8) + " UTC" : time;
}

std::string beside_text(const MeasuredArm& arm, const KeptTime& other) {
  const Ratio ratio = speedup_unpaired(arm.rounds_us, other.us);
  return format_speedup(ratio.speedup) + " " + other.id + " (" +
         format_interval(ratio.low, ratio.high) + "; " + format_time(quantile(other.us, 0.5)) +
         " at " + clock_of(other.measured) + ")";
}

std::string wrong_text(const MeasuredArm& arm) {
  std::string text = "WRONG";
  for (const FoundFault& fault : arm.faults) {
    text += "\n" + indented(fault.text + (fault.picture.empty() ? "" : "\n" + fault.picture));
    text.pop_back();
  }
  return text;
}

}  // namespace

KeptTime kept_time(const BenchRow& row, const MeasuredArm& arm) {
  return {.problem = row.problem,
          .pass = row.pass,
          .id = arm.implementation,
          .measured = now_text(),
          .us = arm.rounds_us,
          .share_of_floor = arm.share_of_floor};
}

std::string kept_time_text(const KeptTime& time) {
  std::string text = "  " + time.pass + ": " + time.id + ", " + format_time(quantile(time.us, 0.5));
  if (std::isnan(time.share_of_floor)) return text;
  return text + ", " + format_share(time.share_of_floor) + " of the floor's speed";
}

KernelHistory::KernelHistory(const KernelFile& file)
    : path_(fs::path(file.path).replace_extension(".history.jsonl")) {}

EarlierTimes KernelHistory::of(const BenchRow& row, const std::string& machine) const {
  EarlierTimes earlier;
  std::error_code error;
  if (!fs::exists(path_, error)) return earlier;
  std::istringstream lines(text());
  for (std::string line; std::getline(lines, line);) {
    const json entry = object_of_line(line);
    const auto says = [&](const char* key, const std::string& value) {
      return entry.contains(key) && entry[key] == value;
    };
    if (!entry.is_object() || !says("problem", row.problem) || !says("pass", row.pass) ||
        !says("machine", machine) || !entry.contains("us") || !entry["us"].is_number()) {
      continue;
    }
    earlier.last = entry["us"];
    earlier.best = std::fmin(earlier.best, earlier.last);
  }
  return earlier;
}

std::string KernelHistory::add(const json& entry) const {
  try {
    const Descriptor file = open_own_file(path_);
    if (write_all(file, json_text(entry) + "\n")) return "";
    return "cannot write " + path_.string() + ": " + std::strerror(errno) + "\n";
  } catch (const RunError& error) {
    return std::string(error.what()) + "\n";
  }
}

// What cannot be read is no reason to stop, either.
std::string KernelHistory::text() const {
  try {
    return read_input_file(path_, kMostHistory);
  } catch (const Error&) {
    return "";
  }
}

std::string compiled_text(const CompiledKernels& made) {
  std::string text =
      made.cached ? "  compiled before" : "  compiled in " + format_seconds(made.seconds);
  if (made.device == Device::kCpu) return text + "\n";  // a function of the host has none of these
  for (const KernelLaunch& launch : made.launches) {
    text += "\n    " + std::string(to_string(launch.pass)) + ", line " +
            std::to_string(launch.line) + ": " + std::to_string(launch.registers) + " registers, " +
            (launch.spilled ? std::to_string(launch.spilled) : "no") + " bytes spilled, " +
            std::to_string(launch.static_shared + launch.shared) + " bytes of shared memory";
  }
  return text + "\n";
}

const MeasuredArm* arm_of(const BenchRow& row, const std::string& id) {
  for (size_t i = 0; i < row.arms.size(); ++i) {
    if (row.arm(i) && row.arm(i)->implementation == id) return row.arm(i);
  }
  return nullptr;
}

std::string verdict_text(const BenchRow& row, const std::string& id,
                         const std::vector<KeptTime>& others, const EarlierTimes& earlier) {
  const MeasuredArm* arm = arm_of(row, id);
  if (!arm) {
    for (const BenchRow::Unsupported& each : row.unsupported) {
      if (each.implementation == id) return each.reason;
    }
    return "not examined";
  }
  if (arm->agrees != true) return wrong_text(*arm);
  std::string text = "right (" + format_share(std::fmax(0, arm->worst_share())) + " of the limit)";
  if (!arm->us.known() || arm->rounds_us.empty()) return text;
  const double us = arm->us.median;
  text += ", " + format_time(us);
  for (const KeptTime& other : others) {
    if (other.problem != row.problem || other.pass != row.pass) continue;
    text += ", " + beside_text(*arm, other);
  }
  if (!std::isnan(arm->share_of_floor)) {
    text += ", " + format_share(arm->share_of_floor) + " of the floor's speed";
  }
  if (std::isnan(earlier.last)) return text;
  return text + ", " + gain_text(earlier.last, us) + " since the last, best so far " +
         format_time(std::fmin(earlier.best, us));
}

std::string indented(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 5) {
    text.replace(at, 1, "\n    ");
  }
  return "    " + text + "\n";
}

}  // namespace duet
