#include "lab/puzzle.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <ostream>
#include <sstream>

#include "compare/measure/measuring_child.h"
#include "compare/results/results_json.h"
#include "compare/tables/distinct.h"
#include "compare/tables/format.h"
#include "core/command.h"
#include "core/config.h"
#include "core/error.h"
#include "core/interrupt.h"
#include "core/number_text.h"
#include "core/program.h"
#include "core/shell_word.h"
#include "core/write_file.h"
#include "lab/bench_problems.h"
#include "lab/ncu_report.h"
#include "lab/watch_text.h"
#include "measure/time/ceilings.h"
#include "net/table.h"
#include "user_kernels/starter.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> paragraphs_of(const std::string& text) {
  std::vector<std::string> paragraphs(1);
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) {
      paragraphs.back() += line + "\n";
    } else if (!paragraphs.back().empty()) {
      paragraphs.emplace_back();
    }
  }
  return paragraphs;
}

// Functions, which begin and end at the margin, without what they do.
std::string without_bodies(const std::string& paragraph) {
  std::string text;
  bool inside = false;
  std::istringstream lines(paragraph);
  for (std::string line; std::getline(lines, line);) {
    if (inside && line != "}") continue;
    inside = line.ends_with("{");
    text += line + "\n";
    if (inside) text += "  // yours\n";
  }
  return text;
}

// What a starter says of its own way is no part of the puzzle.
std::string without_description(std::string text) {
  const size_t colon = text.find(": "), end = text.find('\n');
  if (colon >= end) return text;
  return text.replace(
      colon, end - colon,
      ", to be written: the kernel below has no body. The sizes in capitals are\n"
      "// constants; the launch is a suggestion. docs/kernels-at-run-time.md explains "
      "DUET_LAUNCH and its like.");
}

std::string passes_of_puzzle(const std::string& starter) {
  std::string all;
  for (const char* pass : {"forward", "backward", "backward_data", "backward_filter"}) {
    if (!puzzle_text(starter, pass).empty()) all += (all.empty() ? "" : ", ") + std::string(pass);
  }
  return all;
}

// The fields of a line, whose quotes hold commas.
class Puzzle {
 public:
  Puzzle(const BenchOptions& options, std::ostream& out)
      : options_(options),
        out_(out),
        layer_(options.problems.layer),
        pass_(options.passes.empty() ? "forward" : options.passes.front()) {
    check_names();
    if (options_.problems.shape.empty()) options_.problems.shape = starter_shape(layer_);
    const std::string name = pass_ == "forward" ? "puzzle" : "puzzle_" + pass_;
    path_ = fs::path(options.puzzle) / (layer_ + "_custom_" + name + ".cu");
    text_ = puzzle_text(starter_text(layer_, name), pass_);
    if (text_.empty()) {
      throw ConfigError("--pass " + pass_ + ": there is no puzzle of that; of " + layer_ +
                        " there are " + passes_of_puzzle(starter_text(layer_, name)));
    }
  }

  int run() {
    std::error_code error;
    if (!fs::exists(path_, error)) return write();
    load_kernels({path_});
    file_ = read_kernel_file(path_);
    options_.passes = {pass_};
    options_.quick = true;
    options_.json = true;  // no rows are printed
    options_.out.clear();
    return judge();
  }

 private:
  void check_names() const {
    const std::vector<std::string> types = starter_types();
    if (std::find(types.begin(), types.end(), layer_) == types.end()) {
      throw ConfigError("--puzzle: there is none for '" + layer_ + "'" +
                        did_you_mean(layer_, types) + "; there are puzzles of " + join(types));
    }
    if (options_.passes.size() > 1) throw ConfigError("--puzzle: name one pass at a time");
  }

  int write() {
    std::error_code error;
    fs::create_directories(path_.parent_path(), error);
    if (error) {
      throw DataError(path_.parent_path().string() + ": cannot be made: " + error.message());
    }
    write_file(path_, text_);
    out_
        << text_ << "\nwrote " << path_.string()
        << ", which is the above. Write the body, and run the same command again: it says whether\n"
           "it is right, where it is wrong, and how fast it is beside the others.\n";
    return kExitDone;
  }

  int judge() {
    const InterruptGuard guard;
    out_ << path_.string() << ", source " << file_.hash << "\n" << std::flush;
    if (!compiles()) return kExitComparison;
    if (!gpu_in_child()) {
      throw UnsupportedError(
          "it compiles; whether it is right, and how fast it is, needs a GPU and a build with CUDA "
          "('" +
          as_started("trainer doctor") + "' says what is missing)");
    }
    const BenchRow checked = measured({file_.id}, true);
    const bool right = arm_of(checked, file_.id) && arm_of(checked, file_.id)->agrees == true;
    out_ << "  " << pass_ << ": " << verdict_text(checked, file_.id, {}, {}) << "\n" << std::flush;
    if (!right) return kExitComparison;
    tell_bytes(checked);
    // All others of the device, and what is right may still be wrong when it is timed.
    const BenchRow timed = measured({}, false);
    out_ << rungs_text(timed, file_.id) << std::flush;
    const MeasuredArm* arm = arm_of(timed, file_.id);
    if (arm && arm->agrees == true) return kExitDone;
    out_ << "  " << pass_ << ": " << verdict_text(timed, file_.id, {}, {}) << "\n";
    return kExitComparison;
  }

  // What a process says of the file that it has compiled.
  struct Compiled {
    std::string text, kernels;  // the latter mangled, with '|' between them
    bool fits = false, mistake = false;
    void fields(auto& f) { f("text", text)("kernels", kernels)("fits", fits)("mistake", mistake); }
  };

  bool compiles() {
    Compiled compiled;
    const auto compile = [&](const Send& send) {
      const auto problems = read_problems(options_.problems, Device::kCpu);
      const Layer& layer = *problems.front().layer;
      send(json_text(JsonWriter::write(
          compiled_for(layer, find_kernels(file_.type, file_.id)->compiled(layer)))));
    };
    const ChildEnd end = measure_in_child(compile, [&](const std::string& text) {
      compiled = JsonReader::read<Compiled>(nlohmann::json::parse(text));
    });
    InterruptGuard::check();
    if (!end.finished) throw RunError("the compiler " + end.text());
    if (!compiled.fits && !compiled.mistake) {
      throw UnsupportedError(path_.string() + ": " + compiled.text);
    }
    out_ << compiled.text << std::flush;
    kernel_names_ = compiled.kernels;
    return compiled.fits;
  }

  Compiled compiled_for(const Layer& layer, const CompiledKernels& made) const {
    Compiled compiled{.fits = made.refusal.empty(), .mistake = made.mistake};
    if (!compiled.fits) {
      compiled.text = made.mistake ? indented(made.refusal) : made.refusal;
      return compiled;
    }
    Distinct names;
    for (const KernelLaunch& launch : made.launches) names.add(launch.kernel);
    compiled.kernels = join(names.texts(), "|");
    const auto pass = std::find_if(layer.passes().begin(), layer.passes().end(),
                                   [&](Pass each) { return to_string(each) == pass_; });
    compiled.text = compiled_text(made) + "  " + layer.problem_text() + ": " +
                    format_bytes(static_cast<size_t>(least_bytes(layer, *pass))) +
                    " must move at least, each tensor that the pass reads or writes once\n";
    return compiled;
  }

  // CUDA is not to be touched in this process, which makes others.
  static bool gpu_in_child() {
    bool there = false;
    measure_in_child([](const Send& send) { send(gpu_available() ? "1" : "0"); },
                     [&](const std::string& text) { there = text == "1"; });
    return there;
  }

  BenchRow measured(const std::vector<std::string>& impls, bool check_only) {
    BenchOptions options = options_;
    options.impls = impls;
    options.device = Device::kGpu;
    options.check_only = check_only;
    std::exception_ptr stopped;
    BenchResults results = measure_bench(options, {}, &stopped);
    if (stopped) std::rethrow_exception(stopped);
    return std::move(results.rows.at(0));
  }

  void tell_bytes(const BenchRow& row) {
    const auto ncu = find_program("ncu", path_variable() + ":/usr/local/cuda/bin");
    const std::string command =
        shell_word(ncu.value_or("ncu")) + " --csv --print-units base --metrics " + kDramRead + "," +
        kDramWritten + " --kernel-name-base mangled -k " +
        shell_word("regex:^(" + kernel_names_ + ")$") + " " + once_command(row);
    if (!ncu) {
      out_
          << "  what your kernel reads and writes is counted by Nsight Compute (ncu), which is not "
             "on PATH:\n    "
          << command << "\n";
      return;
    }
    const CommandResult counted = run_command(command);
    const auto launches = read_ncu_csv(counted.output);
    const double read = sum_of_metric(launches, kDramRead),
                 written = sum_of_metric(launches, kDramWritten);
    if (counted.code != 0 || read + written == 0) {
      out_
          << "  what your kernel reads and writes, Nsight Compute did not count (docs/profiling.md "
             "says what it needs):\n    "
          << command << "\n"
          << indented(counted.output.substr(0, 500));
      return;
    }
    out_ << "  yours: " << format_bytes(static_cast<size_t>(read)) << " read and "
         << format_bytes(static_cast<size_t>(written)) << " written, "
         << format_significant((read + written) / row.bytes)
         << " times as much as must move (from empty caches, counted by ncu"
         << (read + written < row.bytes ? "; what fits into the L2 cache is written to memory later"
                                        : "")
         << ")\n";
  }

  // bench in a process of ncu's.
  std::string once_command(const BenchRow& row) const {
    const std::string bench = fs::read_symlink("/proc/self/exe").string();
    std::string command = row.repeat.substr(row.repeat.find(' '));  // behind "bench"
    const size_t how = command.find(" --impl ");
    if (how != std::string::npos) command.erase(how);
    return shell_word(bench) + command + " --impl " + file_.id + " --once";
  }

  BenchOptions options_;
  std::ostream& out_;
  const std::string layer_, pass_;
  fs::path path_;
  std::string text_;  // of a new file
  KernelFile file_;
  std::string kernel_names_;  // mangled, with '|' between them
};

}  // namespace

std::string puzzle_text(const std::string& starter, const std::string& pass) {
  const std::vector<std::string> paragraphs = paragraphs_of(starter);
  std::string kernels;
  for (const std::string& paragraph : paragraphs) {
    if (paragraph.find("DUET_LAUNCH(" + pass + ",") == std::string::npos) continue;
    kernels += "\n" + without_bodies(paragraph);
  }
  return kernels.empty() ? "" : without_description(paragraphs.front()) + kernels;
}

std::string rungs_text(const BenchRow& row, const std::string& id) {
  std::vector<const MeasuredArm*> arms;
  size_t own = row.arms.size();
  for (size_t i = 0; i < row.arms.size(); ++i) {  // they are sorted by time
    const MeasuredArm* arm = row.arm(i);
    if (!arm || !arm->us.known()) continue;
    if (arm->implementation == id) own = arms.size();
    arms.push_back(arm);
  }
  if (own >= arms.size()) return "";
  TextStream text;
  text << "  the rungs, fastest first, timed in turns in short blocks:\n";
  for (size_t i = 0; i < arms.size(); ++i) {
    text << (i == own ? "  > " : "    ") << std::setw(10) << format_time(arms[i]->us.median)
         << std::setw(8) << shown(arms[i]->share_of_floor, format_share) << " of the floor  "
         << arms[i]->implementation << "\n";
  }
  const auto beside = [&](size_t i) {
    const double ratio = arms[own]->us.median / arms[i]->us.median;
    return arms[i]->implementation + ", which is " + format_speedup(ratio) + " as fast";
  };
  if (arms.size() == 1) return text.str();
  text << "  yours is ";
  if (own == 0) {
    text << "the fastest; behind it stands " << beside(1);
  } else if (own + 1 == arms.size()) {
    text << "the slowest; above it stands " << beside(own - 1);
  } else {
    text << "between " << beside(own - 1) << ", and " << beside(own + 1);
  }
  return text.str() + "\n";
}

int run_puzzle(const BenchOptions& options, std::ostream& out) {
  return Puzzle(options, out).run();
}

}  // namespace duet
