#include "user_kernels/compiled_kernels.h"

#include <algorithm>
#include <cstring>
#include <regex>
#include <sstream>

#include "core/error.h"
#include "device/device.h"
#include "device/gpu.h"
#include "device/nvrtc.h"
#include "device/stopwatch.h"
#include "user_kernels/cubin.h"
#include "user_kernels/kernel_cache.h"

namespace duet {
namespace {

constexpr int kWithoutGpu = 90;
constexpr int64_t kMostThreads = 1024, kRegisters = 65536, kMostStaticShared = 48 << 10;

// Shared memory that a block may have, by compute capability (CUDA's programming guide).
int64_t most_shared(int capability) {
  if (capability < 80) return 64 << 10;
  if (capability == 80 || capability == 87) return 163 << 10;
  if (capability < 90 || capability >= 120) return 99 << 10;
  return 227 << 10;
}

int capability_in_use() { return gpu_available() ? gpu::compute_capability() : kWithoutGpu; }

std::vector<std::string> options_for(const Nvrtc& nvrtc, int capability) {
  // What only one architecture has (wgmma, TMA's multicast) is in "90a" and its likes.
  const std::string own = capability >= 90 ? "a" : "";
  std::vector<std::string> options = {"--gpu-architecture=sm_" + std::to_string(capability) + own,
                                      "-std=c++20", "-default-device", "-lineinfo",
                                      "--ptxas-options=-v"};
  if (!nvrtc.includes().empty()) {
    options.push_back("-I" + nvrtc.includes());
    options.push_back("-I" + nvrtc.includes() + "/cccl");
  }
  return options;
}

std::string key_of(const KernelFile& file, const std::string& source,
                   const std::vector<std::string>& options, const Nvrtc& nvrtc) {
  std::string key = "NVRTC " + nvrtc.version() + " " + join(options, " ") + "\n" + source;
  for (const auto& [name, text] : file.headers) key += "\n#header " + name + "\n" + text;
  return key;
}

// ---- what the compiler says ----

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// A failed static_assert of ours: "file(12): error: static assertion failed with "duet refuses: ..."".
// Returns its words behind `mark`, with the line where `with_line`, or "".
std::string told(const std::string& line, const std::string& mark, bool with_line) {
  const size_t at = line.find('"' + mark), end = line.rfind('"');
  if (at == std::string::npos || end <= at) return "";
  const std::string text = line.substr(at + 1 + mark.size(), end - at - 1 - mark.size());
  return with_line ? line.substr(0, line.find(": error")) + ": " + text : text;
}

void set_failure(const std::string& log, CompiledKernels* made) {
  std::vector<std::string> refusals, signatures, others;
  for (const std::string& line : lines_of(log)) {
    const std::string refusal = told(line, kRefusalMark, false);
    const std::string signature = told(line, kSignatureMark, true);
    if (!refusal.empty()) refusals.push_back(refusal);
    if (!signature.empty()) signatures.push_back(signature);
    if (!line.starts_with("ptxas info") && !line.starts_with("ptxas     ")) others.push_back(line);
  }
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

struct Resources {
  int registers = 0;
  size_t shared = 0, spilled = 0;
};

// Of each kernel, by its mangled name, from the words of --ptxas-options=-v.
std::map<std::string, Resources> resources_in(const std::string& log) {
  static const std::regex entry("Compiling entry function '([^']+)'"),
      used("Used (\\d+) registers"), shared("(\\d+) bytes smem"),
      spilled("(\\d+) bytes spill (stores|loads)");
  std::map<std::string, Resources> all;
  Resources* last = nullptr;
  std::smatch match;
  for (const std::string& line : lines_of(log)) {
    if (std::regex_search(line, match, entry)) last = &all[match[1]];
    if (!last) continue;
    if (std::regex_search(line, match, used)) last->registers = std::stoi(match[1]);
    if (std::regex_search(line, match, shared)) last->shared = std::stoull(match[1]);
    for (std::sregex_iterator each(line.begin(), line.end(), spilled), end; each != end; ++each) {
      last->spilled += std::stoull((*each)[1]);
    }
  }
  return all;
}

// ---- the tables in the code ----

template <class Row>
std::optional<Row> row_in(const CubinSymbol& symbol, const char* prefix) {
  if (!symbol.name.starts_with(prefix) || symbol.bytes.size() != sizeof(Row)) return {};
  Row row;
  std::memcpy(&row, symbol.bytes.data(), sizeof row);
  return row;
}

std::string text_of(const char* text, size_t most) { return {text, strnlen(text, most)}; }

class Tables {
 public:
  Tables(const KernelFile& file, const Layer& layer, const std::string& log, CompiledKernels* made)
      : file_(file),
        layer_(layer),
        resources_(resources_in(log)),
        symbols_(cubin_symbols(made->cubin)),
        made_(made) {}

  void read() {
    for (const CubinSymbol& symbol : symbols_) {
      if (const auto row = row_in<LaunchRow>(symbol, "duet_launch_")) add(*row);
      if (const auto row = row_in<BytesRow>(symbol, "duet_bytes_")) add(*row);
      if (const auto row = row_in<RequiresRow>(symbol, "duet_requires_")) add(*row);
      if (const auto row = row_in<TuneRow>(symbol, "duet_tune_")) made_->tunes.push_back(*row);
    }
    std::sort(made_->launches.begin(), made_->launches.end(),
              [](const auto& a, const auto& b) { return a.line < b.line; });
    if (made_->launches.empty()) fail("launches nothing: it has no DUET_LAUNCH");
    for (const KernelLaunch& launch : made_->launches) check_extras(launch);
  }

 private:
  void fail(const std::string& what) {
    if (!made_->refusal.empty()) return;
    made_->mistake = true;
    made_->refusal = what;
  }
  void fail(int line, const std::string& what) {
    fail(file_.path.string() + "(" + std::to_string(line) + "): " + what);
  }

  std::optional<Pass> pass_of(const char (&name)[24], int line) {
    std::vector<std::string> names;
    for (const Pass pass : layer_.passes()) {
      names.emplace_back(to_string(pass));
      if (names.back() == text_of(name, sizeof name)) return pass;
    }
    fail(line, std::string(layer_.type()) + " has no pass '" + text_of(name, sizeof name) +
                   "'; it has " + join(names));
    return {};
  }

  // Of the DUET_LAUNCH in that line: kernel_of<12, &(void tile<8>(float const*))> names it.
  std::string kernel_of(int line) const {
    const std::string begins = "duet::kernel_of<" + std::to_string(line) + ", &";
    const auto bare = [](std::string name) {  // without the result of a template, and parentheses
      while (name.starts_with('(')) name = name.substr(1, name.rfind(')') - 1);
      return name.starts_with("void ") ? name.substr(5) : name;
    };
    for (const CubinSymbol& symbol : symbols_) {
      if (!symbol.demangled.starts_with(begins)) continue;
      const size_t end = symbol.demangled.rfind('>');
      const std::string wanted = bare(symbol.demangled.substr(begins.size(), end - begins.size()));
      for (const CubinSymbol& kernel : symbols_) {
        const std::string name = bare(kernel.demangled);
        if (!kernel.is_kernel || !name.starts_with(wanted)) continue;
        if (name.size() == wanted.size() || name[wanted.size()] == '(') return kernel.name;
      }
    }
    throw ConfigError(
        file_.path.string() + "(" + std::to_string(line) +
        "): there is no kernel of the name that is launched here; it is to be __global__, without "
        "'static', 'extern \"C\"' or a namespace without a name");
  }

  void add(const LaunchRow& row) {
    const auto pass = pass_of(row.pass, row.line);
    if (!pass) return;
    KernelLaunch launch{.pass = *pass, .line = row.line, .kernel = kernel_of(row.line)};
    const auto found = resources_.find(launch.kernel);
    if (found != resources_.end()) {
      launch.registers = found->second.registers;
      launch.static_shared = found->second.shared;
      launch.spilled = found->second.spilled;
    }
    check_limits(row, launch);
    if (!made_->refusal.empty()) return;
    for (size_t i = 0; i < 3; ++i) {
      launch.grid[i] = static_cast<uint32_t>(row.grid[i]);
      launch.block[i] = static_cast<uint32_t>(row.block[i]);
    }
    launch.shared = static_cast<size_t>(row.shared);
    for (int rest = row.extras; rest != 0; rest /= 8) {
      launch.extras.insert(launch.extras.begin(), static_cast<KernelExtra>(rest % 8));
    }
    made_->launches.push_back(launch);
  }

  void check_limits(const LaunchRow& row, const KernelLaunch& launch) {
    const auto by = [](const int64_t(&v)[3]) {
      return std::to_string(v[0]) + " x " + std::to_string(v[1]) + " x " + std::to_string(v[2]);
    };
    const auto within = [](const int64_t(&v)[3], int64_t x, int64_t y, int64_t z) {
      return v[0] >= 1 && v[1] >= 1 && v[2] >= 1 && v[0] <= x && v[1] <= y && v[2] <= z;
    };
    if (!within(row.grid, 0x7fffffff, 65535, 65535)) {
      fail(row.line, "launches a grid of " + by(row.grid) +
                         " blocks; from 1 to 2147483647 x 65535 x 65535 are possible");
    }
    if (!within(row.block, 1024, 1024, 64) ||
        row.block[0] * row.block[1] * row.block[2] > kMostThreads) {
      fail(row.line, "launches blocks of " + by(row.block) +
                         " threads; from 1 to 1024 x 1024 x 64 are possible, and 1024 in all");
      return;
    }
    const int64_t most = most_shared(made_->capability);
    const auto fixed = static_cast<int64_t>(launch.static_shared);
    if (fixed > kMostStaticShared) {
      fail(row.line, "declares " + std::to_string(fixed) +
                         " bytes of shared memory, and more than " +
                         std::to_string(kMostStaticShared) +
                         " must be extern __shared__ and stand "
                         "behind the block in DUET_LAUNCH");
    }
    if (row.shared < 0 || row.shared > most - fixed) {
      fail(row.line, "takes " + std::to_string(row.shared) + " bytes of shared memory beside the " +
                         std::to_string(fixed) +
                         " that the kernel declares; a block of compute "
                         "capability " +
                         capability_text() + " has " + std::to_string(most));
    }
    // Registers are given to warps, eight a thread at a time.
    const int64_t threads = (row.block[0] * row.block[1] * row.block[2] + 31) / 32 * 32;
    const int64_t registers = (launch.registers + 7) / 8 * 8;
    if (threads * registers > kRegisters) {
      fail(row.line, "takes " + std::to_string(launch.registers) + " registers in each of " +
                         std::to_string(threads) + " threads; a block has " +
                         std::to_string(kRegisters) +
                         ": launch fewer threads, or write "
                         "__launch_bounds__(" +
                         std::to_string(threads) + ") before the kernel");
    }
  }

  std::string capability_text() const {
    return std::to_string(made_->capability / 10) + "." + std::to_string(made_->capability % 10);
  }

  void check_extras(const KernelLaunch& launch) {
    for (const KernelExtra extra : launch.extras) {
      if (extra == KernelExtra::kWorkspace && !made_->workspace.contains(launch.pass)) {
        fail(launch.line, "the kernel takes a Workspace; say how large: DUET_WORKSPACE(" +
                              std::string(to_string(launch.pass)) + ", bytes)");
      }
      if (extra == KernelExtra::kState && made_->state == 0) {
        fail(launch.line, "the kernel takes a State; say how large: DUET_STATE(bytes)");
      }
    }
  }

  void add(const BytesRow& row) {
    constexpr int64_t kMost = int64_t{1} << 40;
    if (row.bytes < 0 || row.bytes > kMost) {
      return fail("a workspace or state of " + std::to_string(row.bytes) + " bytes");
    }
    const auto bytes = static_cast<size_t>(row.bytes);
    if (row.pass[0] == '\0') {
      made_->state = std::max(made_->state, bytes);
    } else if (const auto pass = pass_of(row.pass, 0)) {
      made_->workspace[*pass] = std::max(made_->workspace[*pass], bytes);
    }
  }

  void add(const RequiresRow& row) {
    const auto pass = pass_of(row.pass, row.line);
    if (!pass || row.holds) return;
    made_->refusals.emplace(*pass, text_of(row.reason, sizeof row.reason));
  }

  const KernelFile& file_;
  const Layer& layer_;
  const std::map<std::string, Resources> resources_;
  const std::vector<CubinSymbol> symbols_;
  CompiledKernels* made_;
};

}  // namespace

std::optional<std::string> CompiledKernels::unsupported(Pass pass) const {
  if (!refusal.empty()) return refusal;
  if (const auto own = refusals.find(pass); own != refusals.end()) return own->second;
  const bool launched = std::any_of(launches.begin(), launches.end(),
                                    [&](const auto& launch) { return launch.pass == pass; });
  if (launched) return {};
  return "its file has no DUET_LAUNCH of " + std::string(to_string(pass));
}

CompiledKernels compile_kernels(const KernelFile& file, const Layer& layer,
                                const std::vector<TunedValue>& tuned) {
  const Nvrtc* nvrtc = Nvrtc::find();
  if (!nvrtc) throw UnsupportedError(Nvrtc::missing_reason());
  CompiledKernels made{.tuned = tuned, .capability = capability_in_use()};
  if (!nvrtc->knows(made.capability)) {
    throw UnsupportedError("NVRTC " + nvrtc->version() + " (" + nvrtc->path() +
                           ") makes no code for compute capability " +
                           std::to_string(made.capability / 10) + "." +
                           std::to_string(made.capability % 10));
  }
  const std::string source = source_text(file, layer, kernel_interface(layer), tuned);
  const auto options = options_for(*nvrtc, made.capability);
  const std::string key = key_of(file, source, options, *nvrtc);
  std::optional<CachedCode> code = find_cached(key);
  made.cached = code.has_value();
  const Elapsed watch;
  if (!code) {
    const Nvrtc::Compiled compiled = nvrtc->compile(source, file.headers, options);
    code = CachedCode{compiled.cubin, compiled.log};
    // What is not installed may be, the next time.
    if (compiled.log.find("cannot open source file") == std::string::npos) keep_cached(key, *code);
    made.seconds = watch.seconds();
  }
  made.cubin = code->code;
  if (made.cubin.empty()) {
    set_failure(code->log, &made);
  } else {
    Tables(file, layer, code->log, &made).read();
  }
  return made;
}

}  // namespace duet
