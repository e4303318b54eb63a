#include "compare/watch.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "compare/bench_rows.h"
#include "compare/format.h"
#include "compare/measuring_child.h"
#include "compare/records.h"
#include "core/error.h"
#include "core/input_file.h"
#include "core/interrupt.h"
#include "core/program.h"
#include "device/stopwatch.h"
#include "net/table.h"
#include "user_kernels/starter.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr auto kBetweenLooks = std::chrono::milliseconds(100);
constexpr uint64_t kMostHistory = 64 << 20;

// The times of a file's earlier sources, of one problem, pass and machine.
struct Earlier {
  double last = kUnknown, best = kUnknown;  // microseconds
};

class History {
 public:
  explicit History(const KernelFile& file)
      : path_(fs::path(file.path).replace_extension(".history.jsonl")) {}

  Earlier of(const BenchRow& row, const std::string& machine) const {
    Earlier earlier;
    std::error_code error;
    if (!fs::exists(path_, error)) return earlier;
    std::istringstream lines(text());
    for (std::string line; std::getline(lines, line);) {
      const json entry = json::parse(line, nullptr, false);  // a line that was cut short is none
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

  // What cannot be kept is told, and is no reason to stop.
  std::string add(const json& entry) const {
    std::ofstream out(path_, std::ios::app);
    out << entry.dump() << "\n";
    out.flush();
    return out ? "" : path_.string() + ": cannot be written\n";
  }

 private:
  // What cannot be read is no reason to stop, either.
  std::string text() const {
    try {
      return read_input_file(path_, kMostHistory);
    } catch (const Error&) {
      return "";
    }
  }

  const fs::path path_;
};

const MeasuredArm* arm_of(const BenchRow& row, const std::string& id, size_t* place = nullptr) {
  for (size_t i = 0; i < row.arms.size(); ++i) {
    if (!row.arm(i) || row.arm(i)->implementation != id) continue;
    if (place) *place = i;
    return row.arm(i);
  }
  return nullptr;
}

std::string indented(std::string text) {
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 5) {
    text.replace(at, 1, "\n    ");
  }
  return "    " + text + "\n";
}

std::string gain_text(double before, double now) {
  const double gain = 100 * (before / now - 1);
  return (gain < 0 ? "" : "+") + format_significant(std::round(10 * gain) / 10) + "%";
}

bool has_starter(const std::string& type) {
  const std::vector<std::string> types = starter_types();
  return std::find(types.begin(), types.end(), type) != types.end();
}

class Watch {
 public:
  Watch(const BenchOptions& options, std::ostream& out) : options_(options), out_(out) {
    for (const auto& kernels : loaded_kernels()) {
      if (kernels->file().type == options.problems.layer) files_.push_back(kernels->file());
    }
    if (files_.empty()) {
      throw ConfigError(
          "--watch: --kernels named no kernels of " + options.problems.layer +
          (has_starter(options.problems.layer)
               ? "; '" + as_started("trainer new-kernel ") + options.problems.layer +
                     " mine' writes some to begin with"
               : ", whose files are called " + options.problems.layer + "_custom_NAME.cu"));
    }
  }

  void run() {
    const InterruptGuard guard;
    for (const KernelFile& file : files_) examine(file);
    while (const auto changed = wait()) examine(*changed);
  }

 private:
  // The next file that is another one than before and has stayed so; nothing if the user asked to
  // stop. A file that cannot be read is about to be replaced.
  std::optional<KernelFile> wait() {
    std::map<std::string, std::string> seen;  // by file: not yet whole, perhaps
    for (;;) {
      std::this_thread::sleep_for(kBetweenLooks);
      if (InterruptGuard::requested()) return {};
      for (KernelFile& file : files_) {
        try {
          KernelFile now = read_kernel_file(file.path);
          if (now.hash == file.hash) continue;
          std::string& before = seen[file.path.string()];
          if (now.hash != before) {
            before = now.hash;
            continue;
          }
          file = std::move(now);
          return file;
        } catch (const Error&) {
        }
      }
    }
  }

  void examine(const KernelFile& file) try {
    const Elapsed watch;
    load_kernels({file.path});
    out_ << now_text() << "  " << file.name() << ", source " << file.hash << "\n" << std::flush;
    if (!compiles(file)) return;
    BenchOptions options = options_;
    options.isolate = true;
    options.json = true;  // no rows are printed
    options.out.clear();
    options.impls = {file.id};
    for (const std::string& each : options_.impls) {
      if (each != file.id) options.impls.push_back(each);
    }
    if (options_.impls.empty()) options.impls.push_back("cudnn");
    std::exception_ptr stopped;
    const BenchResults results = measure_bench(options, environment_, &stopped);
    environment_ = results.environment;
    for (const BenchRow& row : results.rows) tell(row, file);
    out_ << "  " << format_seconds(watch.seconds()) << " from the save\n" << std::flush;
    if (stopped) std::rethrow_exception(stopped);
  } catch (const Error& error) {
    if (!InterruptGuard::requested()) out_ << indented(error.what()) << std::flush;
  }

  // Tells of the first problem's code; the others differ in constants alone.
  bool compiles(const KernelFile& file) {
    bool compiled = false;
    const auto compile = [&](const Send& send) {
      const Device device = gpu_available() ? Device::kGpu : Device::kCpu;
      const auto problems = read_problems(options_.problems, device);
      const auto kernels = find_kernels(file.type, file.id);
      const Layer& layer = *problems.front().layer;
      if (const auto reason = no_kernel_interface(layer)) return send(*reason);
      const CompiledKernels& made = kernels->compiled(layer);
      send(made.refusal.empty() ? " " + code_text(made) : made.refusal);
    };
    const ChildEnd end = measure_in_child(compile, [&](const std::string& text) {
      compiled = text.starts_with(" ");
      out_ << (compiled ? text.substr(1) : indented(text)) << std::flush;
    });
    if (!end.finished && !InterruptGuard::requested())
      out_ << indented("the compiler " + end.text());
    return compiled;
  }

  static std::string code_text(const CompiledKernels& made) {
    std::string text =
        made.cached ? "  compiled before" : "  compiled in " + format_seconds(made.seconds);
    for (const KernelLaunch& launch : made.launches) {
      text += "\n    " + std::string(to_string(launch.pass)) + ", line " +
              std::to_string(launch.line) + ": " + std::to_string(launch.registers) +
              " registers, " + (launch.spilled ? std::to_string(launch.spilled) : "no") +
              " bytes spilled, " + std::to_string(launch.static_shared + launch.shared) +
              " bytes of shared memory";
    }
    return text + "\n";
  }

  void tell(const BenchRow& row, const KernelFile& file) {
    size_t place = 0;
    const MeasuredArm* arm = arm_of(row, file.id, &place);
    std::string text = "  " + row.pass + ": ";
    json entry = {{"time", now_text()},
                  {"source", file.hash},
                  {"problem", row.problem},
                  {"pass", row.pass},
                  {"machine", environment_->device()},
                  {"right", arm && arm->agrees == true}};
    if (!arm) {
      for (const auto& [id, reason] : row.unsupported) {
        if (id == file.id) text += reason;
      }
      out_ << text << "\n" << std::flush;
      return;
    }
    if (arm->agrees != true) {
      text += "WRONG";
      for (const FoundFault& fault : arm->faults) text += "\n" + indented(fault.text);
      if (text.back() == '\n') text.pop_back();
    } else {
      text += "right (" + format_share(std::fmax(0, arm->worst_share())) + " of the limit)";
      if (arm->us.known()) text += times_text(row, *arm, place, file);
      entry["us"] = arm->us.median;
      entry["share_of_floor"] = arm->share_of_floor;
    }
    out_ << text << "\n" << History(file).add(entry) << std::flush;
  }

  std::string times_text(const BenchRow& row, const MeasuredArm& arm, size_t place,
                         const KernelFile& file) const {
    const double us = arm.us.median;
    std::string text = ", " + format_time(us);
    for (const auto& other : row.arms) {
      if (!other || other->implementation == file.id || !other->us.known()) continue;
      text += ", " + format_speedup(other->us.median / us) + " " + other->implementation;
      for (const ArmRatio& ratio : row.ratios) {
        const bool own = ratio.a == place && row.arm(ratio.b) == &*other;
        if (own) text += " (" + format_interval(ratio.low, ratio.high) + ")";
      }
    }
    if (!std::isnan(arm.share_of_floor)) {
      text += ", " + format_share(arm.share_of_floor) + " of the floor's speed";
    }
    const Earlier earlier = History(file).of(row, environment_->device());
    if (std::isnan(earlier.last)) return text;
    return text + ", " + gain_text(earlier.last, us) + " since the last, best so far " +
           format_time(std::fmin(earlier.best, us));
  }

  const BenchOptions& options_;
  std::ostream& out_;
  std::vector<KernelFile> files_;
  std::optional<EnvironmentRecord> environment_;  // the ceilings are measured once
};

}  // namespace

int watch_kernels(const BenchOptions& options, std::ostream& out) {
  Watch(options, out).run();
  return kExitDone;
}

}  // namespace duet
