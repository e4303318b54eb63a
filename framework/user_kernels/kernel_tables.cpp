#include "user_kernels/kernel_tables.h"

#include <algorithm>
#include <cstring>
#include <regex>
#include <sstream>

#include "core/config.h"
#include "core/error.h"
#include "user_kernels/elf.h"
#include "user_kernels/launch_limits.h"

namespace duet {
namespace {

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
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("ptxas") && line.find(" bytes ") == std::string::npos) continue;
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

template <class Row>
std::optional<Row> row_in(const ElfSymbol& symbol, const char* prefix) {
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
        symbols_(elf_symbols(made->code)),
        made_(made) {}

  void read() {
    for (const ElfSymbol& symbol : symbols_) {
      if (const auto row = row_in<LaunchRow>(symbol, "duet_launch_")) add(*row);
      if (const auto row = row_in<PassRow>(symbol, "duet_pass_")) add(*row);
      if (const auto row = row_in<BytesRow>(symbol, "duet_bytes_")) add(*row);
      if (const auto row = row_in<RequiresRow>(symbol, "duet_requires_")) add(*row);
      if (const auto row = row_in<TuneRow>(symbol, "duet_tune_")) made_->tunes.push_back(*row);
    }
    std::sort(made_->launches.begin(), made_->launches.end(),
              [](const auto& a, const auto& b) { return a.line < b.line; });
    if (made_->launches.empty()) fail(nothing_text());
    for (const KernelLaunch& launch : made_->launches) check_extras(launch);
    check_variables();
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

  std::string pass_names() const {
    std::vector<std::string> names;
    for (const Pass pass : layer_.passes()) names.emplace_back(to_string(pass));
    return join(names);
  }
  std::string nothing_text() const {
    if (file_.device == Device::kGpu) return "launches nothing: it has no DUET_LAUNCH";
    return "computes nothing: it has no function called as a pass of " +
           std::string(layer_.type()) + ": " + pass_names();
  }

  std::optional<Pass> pass_of(const char (&name)[24], int line) {
    for (const Pass pass : layer_.passes()) {
      if (to_string(pass) == text_of(name, sizeof name)) return pass;
    }
    fail(line, std::string(layer_.type()) + " has no pass '" + text_of(name, sizeof name) +
                   "'; it has " + pass_names());
    return {};
  }

  // Of the DUET_LAUNCH in that line: kernel_of<12, &(void tile<8>(float const*))> names it.
  std::string kernel_of(int line) const {
    const std::string begins = "duet::kernel_of<" + std::to_string(line) + ", &";
    const auto bare = [](std::string name) {  // without the result of a template, and parentheses
      while (name.starts_with('(')) name = name.substr(1, name.rfind(')') - 1);
      return name.starts_with("void ") ? name.substr(5) : name;
    };
    for (const ElfSymbol& symbol : symbols_) {
      if (!symbol.demangled.starts_with(begins)) continue;
      const size_t end = symbol.demangled.rfind('>');
      const std::string wanted = bare(symbol.demangled.substr(begins.size(), end - begins.size()));
      for (const ElfSymbol& kernel : symbols_) {
        const std::string name = bare(kernel.demangled);
        if (!kernel.is_function || !name.starts_with(wanted)) continue;
        if (name.size() == wanted.size() || name[wanted.size()] == '(') return kernel.name;
      }
    }
    throw ConfigError(
        file_.path.string() + "(" + std::to_string(line) +
        "): there is no kernel of the name that is launched here; it is to be __global__, without "
        "'static', 'extern \"C\"' or a namespace without a name");
  }

  static std::vector<KernelExtra> extras_of(int digits) {
    std::vector<KernelExtra> extras;
    for (; digits != 0; digits /= 8) {
      extras.insert(extras.begin(), static_cast<KernelExtra>(digits % 8));
    }
    return extras;
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
    const std::string beyond = beyond_limits(row, launch, made_->capability);
    if (!beyond.empty()) fail(row.line, beyond);
    if (!made_->refusal.empty()) return;
    for (size_t i = 0; i < 3; ++i) {
      launch.grid[i] = static_cast<uint32_t>(row.grid[i]);
      launch.block[i] = static_cast<uint32_t>(row.block[i]);
    }
    launch.shared = static_cast<size_t>(row.shared);
    launch.extras = extras_of(row.extras);
    launch.overlaps = row.overlaps != 0;
    made_->launches.push_back(launch);
  }

  void add(const PassRow& row) {
    const std::string name = text_of(row.pass, sizeof row.pass);
    const int line = line_of_function(file_, name);
    const auto pass = row.there ? pass_of(row.pass, line) : std::nullopt;
    if (!pass) return;
    made_->launches.push_back({.pass = *pass,
                               .line = line,
                               .kernel = kCallPrefix + name,
                               .extras = extras_of(row.extras)});
  }

  void check_extras(const KernelLaunch& launch) {
    const std::string who = file_.device == Device::kGpu ? "the kernel" : "the function";
    for (const KernelExtra extra : launch.extras) {
      if (extra == KernelExtra::kWorkspace && !made_->workspace.contains(launch.pass)) {
        fail(launch.line, who + " takes a Workspace; say how large: DUET_WORKSPACE(" +
                              std::string(to_string(launch.pass)) + ", bytes)");
      }
      if (extra == KernelExtra::kState && made_->state == 0) {
        fail(launch.line, who + " takes a State; say how large: DUET_STATE(bytes)");
      }
    }
  }

  // Memory that is taken when the code is loaded, before anybody can see who takes it.
  void check_variables() {
    uint64_t most = size_t{file_.device == Device::kGpu ? 64u : 4u} << 20;
    for (const auto* tensors : {&layer_.inputs(), &layer_.outputs()}) {
      for (const TensorDesc& tensor : *tensors) most = std::max<uint64_t>(most, tensor.bytes());
    }
    const uint64_t bytes = elf_variable_bytes(made_->code);
    if (bytes <= most) return;
    fail("takes " + std::to_string(bytes >> 20) +
         " MiB for variables of its own as soon as it is loaded; scratch memory belongs into "
         "DUET_WORKSPACE, and what forward keeps into DUET_STATE");
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
  const std::vector<ElfSymbol> symbols_;
  CompiledKernels* made_;
};

}  // namespace

void read_tables(const KernelFile& file, const Layer& layer, const std::string& log,
                 CompiledKernels* made) {
  Tables(file, layer, log, made).read();
}

}  // namespace duet
