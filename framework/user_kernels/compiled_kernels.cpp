#include "user_kernels/compiled_kernels.h"

#include <algorithm>
#include <sstream>

#include "core/config.h"
#include "core/error.h"
#include "device/gpu.h"
#include "device/stopwatch.h"
#include "user_kernels/kernel_cache.h"
#include "user_kernels/kernel_compiler.h"
#include "user_kernels/kernel_tables.h"
#include "user_kernels/plugins.h"

namespace duet {
namespace {

constexpr int kWithoutGpu = 90;

int capability_in_use() { return gpu_available() ? gpu::compute_capability() : kWithoutGpu; }

std::string key_of(const KernelFile& file, const std::string& source,
                   const KernelCompiler& compiler) {
  std::string key = compiler.key() + "\n" + source;
  for (const auto& [name, text] : file.headers) key += "\n#header " + name + "\n" + text;
  return key;
}

// What a failed static_assert of ours says behind `mark`: NVRTC writes it in quotes, as some others do.
std::string told(const std::string& line, const std::string& mark) {
  const size_t at = line.find(mark);
  if (at == std::string::npos || line.find("error: static") == std::string::npos) return "";
  const std::string text = line.substr(at + mark.size());
  return line[at - 1] == '"' ? text.substr(0, text.rfind('"')) : text;
}

// Where a kernel or a function that does not fit its pass stands. NVRTC tells the line of DUET_LAUNCH; the
// host's compiler that of Duet's check behind the file, unless a macro of the file is wrong.
std::string place_of(const KernelFile& file, const std::string& line, const std::string& told) {
  if (file.device == Device::kGpu) return line.substr(0, line.find(": error"));
  const std::string path = file.path.string(), no_pass = "has no pass ";
  if (line.starts_with(path + ":")) {
    return path + "(" +
           line.substr(path.size() + 1, line.find(':', path.size() + 1) - path.size() - 1) + ")";
  }
  const size_t at = told.find(no_pass);
  const std::string words = at == std::string::npos ? told : told.substr(at + no_pass.size());
  const std::string pass = words.substr(0, words.find_first_of(" ;"));
  return path + "(" + std::to_string(line_of_function(file, pass)) + ")";
}

void set_failure(const KernelFile& file, const std::string& log, CompiledKernels* made) {
  std::vector<std::string> refusals, signatures, others;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    const std::string refusal = told(line, kRefusalMark), signature = told(line, kSignatureMark);
    if (!refusal.empty()) refusals.push_back(refusal);
    if (!signature.empty()) {
      signatures.push_back(place_of(file, line, signature) + ": " + signature);
    }
    if (!line.starts_with("ptxas info") && !line.starts_with("ptxas     ")) others.push_back(line);
  }
  // NVRTC finds that a name which nobody declares takes nothing, too.
  if (log.find("\" is undefined") != std::string::npos) signatures.clear();
  constexpr size_t kMostLines = 40;
  if (others.size() > kMostLines) {
    const size_t more = others.size() - kMostLines;
    others.resize(kMostLines);
    others.push_back("(and " + std::to_string(more) + " more lines)");
  }
  made->mistake = refusals.empty();
  made->refusal = !refusals.empty()     ? refusals.front()
                  : !signatures.empty() ? join(signatures, "\n")
                                        : "does not compile:\n" + join(others, "\n");
}

void set_plugin(const KernelFile& file, const Layer& layer, CompiledKernels* made) {
  try {
    made->plugin = open_plugin(file, made->code, layer);
  } catch (const ConfigError& error) {
    made->refusal = error.what();
    made->mistake = true;
  }
}

// A mistake is kept as code is; but what a compiler misses (a header, a library) may be there the next time.
bool is_lasting(const KernelFile& file, const CompiledCode& made) {
  if (!made.code.empty() || made.log.find(kRefusalMark) != std::string::npos) return true;
  return file.device == Device::kGpu && !file.plugin &&
         made.log.find("cannot open source file") == std::string::npos;
}

}  // namespace

std::optional<std::string> CompiledKernels::unsupported(Pass pass) const {
  if (!refusal.empty()) return refusal;
  if (const auto own = refusals.find(pass); own != refusals.end()) return own->second;
  const bool launched = std::any_of(launches.begin(), launches.end(),
                                    [&](const auto& launch) { return launch.pass == pass; });
  if (launched) return {};
  const std::string what = device == Device::kGpu ? "DUET_LAUNCH of " : "function ";
  return "its file has no " + what + std::string(to_string(pass));
}

CompiledKernels compile_kernels(const KernelFile& file, const Layer& layer,
                                const std::vector<TunedValue>& tuned) {
  const bool gpu = file.device == Device::kGpu;
  CompiledKernels made{.device = file.device, .tuned = tuned};
  if (gpu) made.capability = capability_in_use();
  const auto compiler = file.plugin ? plugin_compiler(file.device, made.capability)
                        : gpu       ? gpu_compiler(made.capability)
                                    : cpu_compiler();
  const std::string source = file.plugin ? numbered_source(file)
                                         : source_text(file, layer, kernel_interface(layer), tuned);
  const std::string key = key_of(file, source, *compiler);
  std::optional<CompiledCode> code = find_cached(key);
  made.cached = code.has_value();
  if (!code) {
    const Elapsed watch;
    code = compiler->compile(file, source);
    made.seconds = watch.seconds();
    if (is_lasting(file, *code)) keep_cached(key, *code);
  }
  made.code = code->code;
  if (made.code.empty()) {
    set_failure(file, code->log, &made);
  } else if (file.plugin) {
    set_plugin(file, layer, &made);
  } else {
    read_tables(file, layer, code->log, &made);
  }
  return made;
}

}  // namespace duet
