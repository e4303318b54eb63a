#include "lab/kernel_tools.h"

#include <unistd.h>

#include <filesystem>
#include <ostream>
#include <sstream>

#include "core/command.h"
#include "core/config.h"
#include "core/interrupt.h"
#include "core/shell_word.h"
#include "core/write_file.h"
#include "lab/bench_problems.h"
#include "lab/bench_selection.h"
#include "lab/ncu_report.h"
#include "measure/time/ceilings.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSections =
    " --section SpeedOfLight --section MemoryWorkloadAnalysis --section Occupancy"
    " --section WarpStateStats --section LaunchStats ";

/// A file for another program, which goes when this does.
class TemporaryFile {
 public:
  TemporaryFile(const std::string& name, const std::string& content)
      : path_(fs::temp_directory_path() / name) {
    std::error_code ignored;
    fs::remove(path_, ignored);  // a link would lead elsewhere
    write_file(path_, content);
  }
  ~TemporaryFile() {
    std::error_code error;
    fs::remove(path_, error);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  std::string path() const { return path_.string(); }

 private:
  const fs::path path_;
};

/// Without what the tool says of its own work.
std::string without_progress(const std::string& text) {
  std::string kept;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("==PROF==")) kept += line + "\n";
  }
  return kept;
}

/// Of one kernel, or of all where `kernel` is empty.
std::string disassembled(const std::string& tool, const std::string& kernel,
                         const std::string& code) {
  const std::string one = kernel.empty() ? "" : "-fun " + shell_word(kernel) + " ";
  const CommandResult shown = run_command(shell_word(tool) + " -sass " + one + shell_word(code));
  if (shown.code != 0) {
    throw RunError(tool + " did not disassemble " + kernel + ":\n" + shown.output);
  }
  return shown.output;
}

size_t count_of(const std::string& word, const std::string& text) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += word.size()) ++count;
  return count;
}

// What Nsight Compute prints of a command of bench that runs so many calls once.
std::string profiled(size_t calls, const std::string& ncu, const std::string& options,
                     const std::string& once) {
  InterruptGuard::check();
  const std::string command = shell_word(ncu) + options + once;
  CommandResult result = run_command(command);
  const size_t told = count_of(": ran once", result.output) + count_of(": cannot: ", result.output);
  if (result.code != 0 || told != calls) {
    throw RunError("Nsight Compute did not finish (docs/profiling.md says what it needs): " +
                   command + "\n" + result.output);
  }
  return std::move(result.output);
}

std::string find_ncu() {
  return find_cuda_tool("ncu", "--ncu", "cuda-nsight-compute-13-0", path_variable());
}
std::string this_program() { return fs::read_symlink("/proc/self/exe").string(); }

void show_launch(const KernelLaunch& launch, const std::string& tool, const std::string& cubin,
                 std::ostream& out) {
  out << to_string(launch.pass) << ", line " << launch.line << ": " << launch.registers
      << " registers, " << launch.spilled << " bytes spilled\n"
      << disassembled(tool, launch.kernel, cubin) << "\n";
}

}  // namespace

void profile_calls(const std::vector<ImplCall>& calls, const std::string& ncu,
                   const std::string& bench, std::ostream& out) {
  for (const ImplCall& call : calls) {
    out << text_of(call) << "\n"
        << without_progress(profiled(1, ncu, kSections, once_command(call, bench))) << std::flush;
  }
}

void profile_calls(const std::vector<ImplCall>& calls, std::ostream& out) {
  const InterruptGuard guard;
  profile_calls(calls, find_ncu(), this_program(), out);
}

std::vector<std::string> find_bounds(const std::vector<ImplCall>& calls, const std::string& ncu,
                                     const std::string& command, std::ostream& tell) {
  tell << "Nsight Compute counts " << calls.size() << " calls: " << command << "\n" << std::flush;
  const std::string options =
      " --csv --print-units base --clock-control none --nvtx --nvtx-include regex:once/ "
      "--metrics " +
      bound_metrics() + " ";
  const auto kernels = read_ncu_csv(profiled(calls.size(), ncu, options, command));
  std::vector<std::string> bounds;
  for (const ImplCall& call : calls) {
    bounds.push_back(
        bound_by(kernels_in(once_range(call), kernels), least_bytes(*call.layer, call.pass)));
    tell << text_of(call) << " " << (bounds.back().empty() ? "not counted" : bounds.back()) << "\n";
  }
  return bounds;
}

std::vector<std::string> find_bounds(const std::vector<ImplCall>& calls,
                                     const BenchOptions& options, const Ladder& ladder,
                                     std::ostream& tell) {
  const InterruptGuard guard;
  std::string command = shell_word(this_program()) + " --shapes " + shell_word(ladder.shapes);
  const auto add = [&](const std::string& option, const std::string& value) {
    if (!value.empty()) command += " " + option + " " + shell_word(value);
  };
  add("--impl", join(options.impls, ","));
  add("--pass", join(options.passes, ","));
  add("--batch", options.problems.batch);
  add("--math", options.problems.math);
  if (options.choice) command += " --choice";
  command += kernel_options(ladder.layer) + " --once --quiet";
  return find_bounds(calls, find_ncu(), command, tell);
}

void show_machine_code(const BenchOptions& options, const std::string& path, std::ostream& out) {
  const std::string tool = find_cuda_tool("cuobjdump", "--sass", "cuda-cuobjdump-13-0", path);
  bool any = false;
  for (const BenchProblem& problem : read_problems(options.problems, Device::kGpu)) {
    for (const auto& kernels : loaded_kernels()) {
      const KernelFile& file = kernels->file();
      if (file.type != problem.layer->type() || file.device != Device::kGpu) continue;
      const CompiledKernels& compiled = kernels->compiled(*problem.layer);
      out << kernels->id() << " for " << problem.layer->problem_text() << ": ";
      if (!compiled.refusal.empty())
        throw ConfigError(file.path.string() + ": " + compiled.refusal);
      out << "compute capability " << compiled.capability / 10 << "." << compiled.capability % 10
          << "\n";
      const TemporaryFile cubin("duet-sass-" + std::to_string(getpid()) + ".cubin", compiled.code);
      if (compiled.plugin) {
        out << disassembled(tool, "", cubin.path());
        any = true;
      }
      for (const KernelLaunch& launch : compiled.launches) {
        if (!is_wanted(launch.pass, options.passes)) continue;
        show_launch(launch, tool, cubin.path(), out);
        any = true;
      }
    }
  }
  if (!any) {
    throw ConfigError("--sass: --kernels named no kernels of " + options.problems.layer +
                      " for these passes; their files are called " + options.problems.layer +
                      "_custom_NAME.cu");
  }
}

}  // namespace duet
