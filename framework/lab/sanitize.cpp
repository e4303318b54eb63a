#include "lab/sanitize.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <ostream>
#include <sstream>

#include "compare/results/problem.h"
#include "core/command.h"
#include "core/interrupt.h"
#include "core/shell_word.h"
#include "device/range.h"
#include "layers/bound_op.h"
#include "measure/examine/examine.h"
#include "user_kernels/user_kernels.h"

namespace duet {
namespace {

constexpr std::string_view kTools[] = {"memcheck", "racecheck", "initcheck", "synccheck"};
constexpr std::string_view kMark = "=========";

/// Tensors of one kind, each an allocation of its own.
class Tensors {
 public:
  explicit Tensors(Device device) : device_(device) {}

  void add(const TensorDesc& desc) {
    buffers_.emplace_back(device_, desc.bytes());
    views_.push_back({desc, buffers_.back().data()});
  }
  void add(const TensorDesc& desc, const std::vector<double>& values) {
    add(desc);
    const std::vector<std::byte> bytes = encode(desc, values);
    copy_bytes(buffers_.back().data(), device_, bytes.data(), Device::kCpu, bytes.size());
  }
  void leave_out() { views_.push_back({}); }
  const std::vector<Tensor>& views() const { return views_; }

 private:
  Device device_;
  std::vector<Buffer> buffers_;
  std::vector<Tensor> views_;
};

// The number before `word` in `line`, or -1.
int number_before(const std::string& line, const std::string& word) {
  size_t end = line.find(word);
  if (end == std::string::npos || end == 0) return -1;
  const size_t begin = line.find_last_not_of("0123456789", end - 1);
  const std::string digits = line.substr(begin + 1, end - begin - 1);
  return digits.empty() || digits.size() > 9 ? -1 : std::stoi(digits);
}

std::string name_of(const ImplCall& call) {
  return std::string(call.layer->type()) + " " + problem_argument(*call.layer) + " " +
         std::string(to_string(call.pass)) + " " + call.id;
}

}  // namespace

std::string text_of(const ImplCall& call) { return name_of(call) + ":"; }

std::string once_range(const ImplCall& call) { return "once " + name_of(call); }

std::string once_command(const ImplCall& call, const std::string& bench) {
  return shell_word(bench) + " " + std::string(call.layer->type()) + " --shape " +
         shell_word(problem_argument(*call.layer)) + " --pass " +
         std::string(to_string(call.pass)) + " --impl " + call.id +
         kernel_options(call.layer->type()) + " --once --quiet";
}

namespace {

void run_once(const ImplCall& call, const LayerData& data, Context& context) {
  const Layer& layer = *call.layer;
  const Device device = context.device();
  Tensors x(device), y(device), dx(device), dy(device), w(device), dw(device);
  for (size_t i = 0; i < data.x.size(); ++i) {
    x.add(layer.inputs()[i], data.x[i]);
    layer.has_gradient(i) ? dx.add(layer.inputs()[i]) : dx.leave_out();
  }
  const auto passes = passes_through(layer, call.id, call.pass);
  for (size_t i = 0; i < data.dy.size(); ++i) {
    // A backward pass reads y, also where this implementation cannot run forward.
    const bool unwritten = passes.front() != Pass::kForward && !data.dy[i].empty();
    unwritten ? y.add(layer.outputs()[i], data.dy[i]) : y.add(layer.outputs()[i]);
    data.dy[i].empty() ? dy.leave_out() : dy.add(layer.outputs()[i], data.dy[i]);
  }
  for (size_t i = 0; i < data.w.size(); ++i) {
    w.add(layer.parameters()[i].desc, data.w[i]);
    dw.add(layer.parameters()[i].desc);
  }
  Tensors step(device);
  step.add({{2}, DType::kInt32}, {static_cast<double>(data.step), 0});

  BoundOp op(layer, call.id, context);
  op.prepare(passes);
  const Buffer state(device, op.state_bytes());
  LayerTensors tensors = {.x = x.views(),
                          .y = y.views(),
                          .dx = dx.views(),
                          .dy = dy.views(),
                          .w = w.views(),
                          .dw = dw.views()};
  tensors.state = {opaque(state.bytes()), state.data()};
  for (Pass pass : passes) {
    const Buffer workspace(device, op.workspace_bytes(pass));
    const Run run{context, workspace.data(), workspace.bytes(),
                  static_cast<const uint64_t*>(step.views()[0].memory)};
    const Range range(pass == call.pass ? once_range(call) : std::string(to_string(pass)));
    op.run(pass, run, tensors);
    context.synchronize();
  }
}

}  // namespace

ExitCode run_once(const std::vector<ImplCall>& calls, Device device, std::ostream& out) {
  const InterruptGuard guard;
  Context context(device);
  const Layer* drawn = nullptr;  // that `data` is of
  LayerData data;
  for (const ImplCall& call : calls) {
    InterruptGuard::check();
    if (call.layer != drawn) data = random_data(*call.layer, 1);
    drawn = call.layer;
    try {
      run_once(call, data, context);
      out << text_of(call) << " ran once\n";
    } catch (const UnsupportedError& e) {
      if (calls.size() == 1) throw;
      out << text_of(call) << " cannot: " << e.what() << "\n";
    }
  }
  return kExitDone;
}

SanitizerReport read_sanitizer_report(const std::string& text) {
  SanitizerReport report;
  std::istringstream lines(text);
  int of_first = 0;  // lines of the first error so far
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(kMark)) continue;
    line.erase(0, kMark.size());
    if (line.find("SUMMARY:") != std::string::npos) {
      report.finished = true;
      // "ERROR SUMMARY: 2 errors", "RACECHECK SUMMARY: 3 hazards displayed (1 error, 2 warnings)"
      report.errors = std::max(report.errors, number_before(line, " error"));
      continue;
    }
    const size_t begin = line.find_first_not_of(' ');
    if (begin == std::string::npos || line.find("COMPUTE-SANITIZER") != std::string::npos) continue;
    const bool indented = begin > 1;
    if (of_first == 0 && !indented && line.find("Warning") == std::string::npos) {
      report.first = line.substr(begin);
      of_first = 1;
    } else if (of_first == 1 && indented) {
      report.first += " " + line.substr(begin);
      of_first = 2;
    }
  }
  if (report.errors == 0) report.first.clear();
  return report;
}

std::string find_cuda_tool(const std::string& name, const std::string& option,
                           const std::string& package, const std::string& path) {
  if (auto found = find_program(name, path + ":/usr/local/cuda/bin")) return *found;
  throw UnsupportedError(option + " needs NVIDIA's " + name +
                         ", which is neither on PATH nor in /usr/local/cuda/bin; it is part of the "
                         "CUDA toolkit (Debian and Ubuntu: apt install " +
                         package + ", for the toolkit's version)");
}

std::string find_sanitizer(const std::string& path) {
  return find_cuda_tool("compute-sanitizer", "--sanitize", "cuda-sanitizer-13-0", path);
}

bool sanitize(const std::vector<ImplCall>& calls, const std::string& sanitizer,
              const std::string& bench, std::ostream& out) {
  bool clean = true;
  for (const ImplCall& call : calls) {
    const std::string command = once_command(call, bench);
    out << text_of(call) << std::flush;
    std::string found;
    for (std::string_view tool : kTools) {
      InterruptGuard::check();
      const std::string text =
          run_command(shell_word(sanitizer) + " --tool " + std::string(tool) + " " + command)
              .output;
      const SanitizerReport report = read_sanitizer_report(text);
      const bool ran = text.find(": ran once") != std::string::npos;
      if (!report.finished || (report.errors == 0 && !ran)) {
        out << "\n";
        throw RunError("compute-sanitizer --tool " + std::string(tool) + " did not finish " +
                       command + ":\n" + text);
      }
      out << " " << tool
          << (report.errors ? " " + std::to_string(report.errors) + " errors" : " ok")
          << std::flush;
      if (report.errors) found += "\n  " + std::string(tool) + ": " + report.first;
    }
    out << found << "\n";
    clean &= found.empty();
  }
  return clean;
}

ExitCode sanitize(const std::vector<ImplCall>& calls, std::ostream& out) {
  const InterruptGuard guard;
  const std::string bench = std::filesystem::read_symlink("/proc/self/exe").string();
  return sanitize(calls, find_sanitizer(path_variable()), bench, out) ? kExitDone : kExitComparison;
}

}  // namespace duet
