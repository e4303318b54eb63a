#include "lab/ncu_report.h"

#include <algorithm>
#include <optional>
#include <sstream>

#include "compare/tables/format.h"
#include "core/number_text.h"

namespace duet {
namespace {

struct Named {
  const char *metric, *text;
};

constexpr const char* kTime = "gpu__time_duration.sum";
// Shares of the units' peaks, in percent. Those of memory's parts tell which of them it is.
constexpr Named kUnits[] = {
    {"sm__throughput.avg.pct_of_peak_sustained_elapsed", "arithmetic and issue"},
    {"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "DRAM"},
    {"lts__throughput.avg.pct_of_peak_sustained_elapsed", "L2"},
    {"l1tex__throughput.avg.pct_of_peak_sustained_active", "L1 and shared memory"},
};
// How many warps stand there, on average, at each instruction that is issued.
constexpr Named kStalls[] = {
    {"smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio",
     "loads from memory"},
    {"smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio",
     "shared memory, or a slow function"},
    {"smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", "a barrier"},
    {"smsp__average_warps_issue_stalled_wait_per_issue_active.ratio", "a fixed latency"},
    {"smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio",
     "the queue of loads and stores"},
    {"smsp__average_warps_issue_stalled_mio_throttle_per_issue_active.ratio",
     "the queue of shared memory"},
    {"smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
     "the arithmetic unit"},
    {"smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio", "instructions"},
    {"smsp__average_warps_issue_stalled_membar_per_issue_active.ratio", "a memory fence"},
    {"smsp__average_warps_issue_stalled_drain_per_issue_active.ratio", "stores at the end"},
};
constexpr double kBusy = 60;

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      fields.emplace_back();
    } else if (c != '\r') {
      fields.back() += c;
    }
  }
  return fields;
}

struct Largest {
  const char* text = nullptr;
  double value = -1;
};

template <size_t count>
Largest largest_of(const ProfiledKernel& kernel, const Named (&all)[count]) {
  Largest largest;
  for (const Named& one : all) {
    const auto found = kernel.metrics.find(one.metric);
    if (found != kernel.metrics.end() && found->second > largest.value) {
      largest = {one.text, found->second};
    }
  }
  return largest;
}

double time_of(const ProfiledKernel& kernel) {
  const auto found = kernel.metrics.find(kTime);
  return found == kernel.metrics.end() ? 0 : found->second;
}

// "winograd_kernel" of "void winograd_kernel<float>(float *)".
std::string short_name(const std::string& name) {
  const size_t end = std::min(name.find_first_of("<("), name.size());
  const size_t begin = name.find_last_of(" :", end == 0 ? 0 : end - 1);
  return name.substr(begin == std::string::npos || begin >= end ? 0 : begin + 1,
                     begin == std::string::npos || begin >= end ? end : end - begin - 1);
}

}  // namespace

std::vector<ProfiledKernel> read_ncu_csv(const std::string& text) {
  std::vector<ProfiledKernel> kernels;
  std::map<std::string, size_t> columns;
  std::optional<size_t> ranges;
  std::string last_id;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> fields = fields_of(line);
    if (fields.size() > 3 && fields.front() == "ID") {
      for (size_t i = 0; i < fields.size(); ++i) {
        columns[fields[i]] = i;
        if (fields[i].find("Push/Pop_Range") != std::string::npos) ranges = i;
      }
      continue;
    }
    if (!columns.contains("Kernel Name") || !columns.contains("Metric Name") ||
        !columns.contains("Metric Value") || fields.size() != columns.size()) {
      continue;
    }
    if (kernels.empty() || fields[0] != last_id) {
      kernels.push_back({fields[columns["Kernel Name"]], {}, ranges ? fields[*ranges] : ""});
    }
    last_id = fields[0];
    std::string digits = fields[columns["Metric Value"]];
    std::erase(digits, ',');
    char* end = nullptr;
    const double value = read_number(digits.c_str(), &end);
    if (end != digits.c_str() && *end == '\0') {
      kernels.back().metrics[fields[columns["Metric Name"]]] = value;
    }
  }
  return kernels;
}

std::vector<ProfiledKernel> kernels_in(const std::string& range,
                                       const std::vector<ProfiledKernel>& kernels) {
  std::vector<ProfiledKernel> inside;
  for (const ProfiledKernel& kernel : kernels) {
    // "1  <default domain>:RANGE:none:none:none:none:none:none"
    if (kernel.ranges.find(":" + range + ":") != std::string::npos) inside.push_back(kernel);
  }
  return inside;
}

double sum_of_metric(const std::vector<ProfiledKernel>& launches, const std::string& metric) {
  double sum = 0;
  for (const ProfiledKernel& launch : launches) {
    const auto found = launch.metrics.find(metric);
    if (found != launch.metrics.end()) sum += found->second;
  }
  return sum;
}

std::string bound_metrics() {
  std::string all = std::string(kTime) + "," + kDramRead + "," + kDramWritten;
  for (const Named& unit : kUnits) all += std::string(",") + unit.metric;
  for (const Named& stall : kStalls) all += std::string(",") + stall.metric;
  return all;
}

std::string bound_by(const std::vector<ProfiledKernel>& launches, double least_bytes) {
  const auto longest =
      std::max_element(launches.begin(), launches.end(),
                       [](const auto& a, const auto& b) { return time_of(a) < time_of(b); });
  if (longest == launches.end()) return "";
  const Largest unit = largest_of(*longest, kUnits), stall = largest_of(*longest, kStalls);
  if (!unit.text) return "";
  const std::string share = format_share(unit.value / 100) + " of its peak";
  std::string text = std::string(unit.text) + ", " + share;
  if (unit.value < kBusy) {
    text = std::string("latency") +
           (stall.text ? std::string(": warps wait for ") + stall.text : "") +
           "; the busiest unit, " + unit.text + ", is at " + share;
  }
  if (launches.size() > 1) {
    text += " (`" + short_name(longest->name) + "`, the longest of " +
            std::to_string(launches.size()) + " launches)";
  }
  const double moved = sum_of_metric(launches, kDramRead) + sum_of_metric(launches, kDramWritten);
  if (moved > 0 && least_bytes > 0) {
    text += "; DRAM moves " + format_significant(moved / least_bytes) + " times the least bytes";
  }
  return text;
}

}  // namespace duet
