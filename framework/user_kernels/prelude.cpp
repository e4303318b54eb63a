#include "user_kernels/prelude.h"

namespace duet {
namespace {

constexpr Pass kPasses[] = {Pass::kForward, Pass::kBackward, Pass::kBackwardData,
                            Pass::kBackwardFilter};

// What is the same for every file. The tables' rows are those of prelude.h.
constexpr const char* kMacros = R"cuda(
template <class A, class B>
constexpr auto ceil_div(A a, B b) { return (a + b - 1) / b; }

/// What a kernel, or a function of the CPU, may take behind the tensors, in any order.
struct Workspace {  // garbage at the beginning of every pass
  void* memory;
  template <class V = float> V* as(long long first = 0) const { return static_cast<V*>(memory) + first; }
};
struct State {  // kept from forward to backward
  void* memory;
  template <class V = float> V* as(long long first = 0) const { return static_cast<V*>(memory) + first; }
};
struct Step {  // number of the training step
  const unsigned long long* memory;
  operator unsigned long long() const { return *memory; }
};
struct Training {  // false in evaluation
  bool on;
  operator bool() const { return on; }
};

namespace duet {
template <class... Arguments> struct Types {};
template <class Argument> constexpr int kExtra = 0;
template <> constexpr int kExtra<Workspace> = 1;
template <> constexpr int kExtra<State> = 2;
template <> constexpr int kExtra<Step> = 3;
template <> constexpr int kExtra<Training> = 4;

template <class Tensors, class Arguments> struct Match { static constexpr bool kValue = false; };
template <class First, class... Tensors, class... Arguments>
struct Match<Types<First, Tensors...>, Types<First, Arguments...>>
    : Match<Types<Tensors...>, Types<Arguments...>> {};
template <class... Arguments> struct Match<Types<>, Types<Arguments...>> {
  static constexpr bool kValue = ((kExtra<Arguments> != 0) && ... && true);
};

template <class Kernel> constexpr bool kThere = true;
template <class Kernel> struct Signature {  // of what is no function that returns nothing
  template <class Tensors> static constexpr bool kTakes = false;
  static constexpr int extras() { return 0; }
};
template <class... Arguments> struct Signature<void(Arguments...)> {
  template <class Tensors> static constexpr bool kTakes = Match<Tensors, Types<Arguments...>>::kValue;
  static constexpr int extras() {
    int digits = 0;
    ((digits = kExtra<Arguments> ? digits * 8 + kExtra<Arguments> : digits), ...);
    return digits;
  }
};
template <class... Arguments> struct Signature<void (&)(Arguments...)> : Signature<void(Arguments...)> {};
template <class... Arguments> struct Signature<void(Arguments...) noexcept> : Signature<void(Arguments...)> {};

struct Bytes { char pass[24]; long long bytes; };
struct Requires { char pass[24]; int line, holds; char reason[200]; };
struct Tune { char name[64]; long long values[16], count; };
constexpr bool same(const char* a, const char* b) {
  while (*a && *a == *b) { ++a; ++b; }
  return *a == *b;
}
template <class... Values> constexpr Tune tune(const char* name, Values... values) {
  Tune row = {{}, {(long long)values...}, sizeof...(Values)};
  for (int i = 0; name[i]; ++i) row.name[i] = name[i];
  return row;
}
}  // namespace duet

#define DUET_JOIN_(a, b) a##b
#define DUET_JOIN(a, b) DUET_JOIN_(a, b)
#define DUET_REQUIRES(condition, reason) static_assert(condition, "duet refuses: " reason)
#define DUET_REQUIRES_IN(pass, condition, reason) \
  DUET_ROW(Requires, DUET_JOIN(duet_requires_, __LINE__)) = {#pass, __LINE__, (condition), reason}
#define DUET_TUNE(name, ...) \
  constexpr int name = duet::tuned(#name, __VA_ARGS__); \
  DUET_ROW(Tune, duet_tune_##name) = duet::tune(#name, __VA_ARGS__)
#define DUET_WORKSPACE(pass, size) \
  DUET_ROW(Bytes, DUET_JOIN(duet_bytes_, __LINE__)) = {#pass, (long long)(size)}
#define DUET_STATE(size) DUET_ROW(Bytes, DUET_JOIN(duet_bytes_, __LINE__)) = {"", (long long)(size)}
)cuda";

constexpr const char* kGpuMacros = R"cuda(
struct dim {
  long long x, y, z;
  constexpr dim(long long x, long long y = 1, long long z = 1) : x(x), y(y), z(z) {}
};

/// As those of device/launch.h, for kernels of DUET_LAUNCH_OVERLAPPED; no more than a barrier to the
/// compiler before compute capability 9.0.
__device__ __forceinline__ void wait_for_primary() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_secondary_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

namespace duet {
struct Launch { char pass[24]; long long grid[3], block[3], shared; int line, extras, overlaps; };
template <int line, auto kernel> __constant__ int kernel_of = 0;

constexpr Launch launch(dim grid, dim block, long long shared = 0) {
  return {{}, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, 0, 0, 0};
}
template <int size>
constexpr Launch named(const char (&pass)[size], int line, int extras, bool overlaps, Launch row) {
  for (int i = 0; i < size; ++i) row.pass[i] = pass[i];
  row.line = line;
  row.extras = extras;
  row.overlaps = overlaps;
  return row;
}
}  // namespace duet

#define DUET_ROW(type, name) extern "C" __constant__ duet::type name
#define DUET_LAUNCH_(pass, overlaps, kernel, ...) \
  DUET_IS_PASS(pass); \
  DUET_TAKES_##pass(kernel); \
  template __constant__ int duet::kernel_of<__LINE__, kernel>; \
  DUET_ROW(Launch, DUET_JOIN(duet_launch_, __LINE__)) = \
      duet::named(#pass, __LINE__, duet::Signature<decltype(kernel)>::extras(), overlaps, \
                  duet::launch(__VA_ARGS__))
#define DUET_LAUNCH(pass, ...) DUET_LAUNCH_(pass, false, __VA_ARGS__)
#define DUET_LAUNCH_OVERLAPPED(pass, ...) DUET_LAUNCH_(pass, true, __VA_ARGS__)
)cuda";

// A name that a file does not declare is found in duet::none, through a directive behind the file's text:
// a qualified name is looked for there only where the global namespace has none.
constexpr const char* kCpuMacros = R"host(
namespace duet {
struct Pass { char pass[24]; int there, extras; };
namespace none {
struct None {};
inline constexpr None forward, backward, backward_data, backward_filter;
}
template <> constexpr bool kThere<const none::None> = false;
template <> struct Signature<const none::None> {
  template <class Tensors> static constexpr bool kTakes = true;
  static constexpr int extras() { return 0; }
};

struct Extras { void *workspace, *state; const unsigned long long* step; bool training; };
template <class Argument> Argument argument(void* const*& tensor, const Extras& extras) {
  if constexpr (kExtra<Argument> == 1) return {extras.workspace};
  else if constexpr (kExtra<Argument> == 2) return {extras.state};
  else if constexpr (kExtra<Argument> == 3) return {extras.step};
  else if constexpr (kExtra<Argument> == 4) return {extras.training};
  else return static_cast<Argument>(*tensor++);
}
template <class... Arguments> struct Call {
  Call(void (*pass)(Arguments...), Arguments... arguments) { pass(arguments...); }
};
template <class... Arguments>
void call(void (*pass)(Arguments...), void* const* tensor, const Extras& extras) {
  Call<Arguments...>{pass, argument<Arguments>(tensor, extras)...};  // in this order: in braces
}
inline void call(const none::None&, void* const*, const Extras&) {}
}  // namespace duet

#define DUET_ROW(type, name) \
  extern "C" { extern duet::type name; } \
  __attribute__((used)) constinit duet::type name
#define DUET_LAUNCH(pass, ...) \
  static_assert(false, "duet signature: " #pass " is launched on a GPU; write a function for the CPU, void " #pass "(...)")
#define DUET_LAUNCH_OVERLAPPED DUET_LAUNCH
#define DUET_PASS(name) \
  DUET_TAKES_##name(::name); \
  DUET_ROW(Pass, duet_pass_##name) = \
      {#name, duet::kThere<decltype(::name)>, duet::Signature<decltype(::name)>::extras()}; \
  extern "C" __attribute__((used, visibility("default"))) void duet_call_##name(void* const* tensors, \
                                                                        const duet::Extras* extras) { \
    duet::call(::name, tensors, *extras); \
  }
)host";

// bfloat16 of core/bfloat16.h.
constexpr const char* kCpuHalf = R"host(
struct bfloat16 {
  unsigned short bits;
  bfloat16() = default;
  explicit bfloat16(float value) {
    const unsigned word = __builtin_bit_cast(unsigned, value);
    bits = value != value ? word >> 16 | 0x40u : (word + 0x7FFFu + (word >> 16 & 1u)) >> 16;
  }
  operator float() const { return __builtin_bit_cast(float, unsigned{bits} << 16); }
};
)host";

std::string types_of(const std::vector<KernelTensor>& tensors, const std::string& stored) {
  std::string text;
  for (const KernelTensor& tensor : tensors) {
    text += (text.empty() ? "" : ", ") + std::string(tensor.written ? "" : "const ") +
            (tensor.type == "T" ? stored : tensor.type) + "*";
  }
  return "duet::Types<" + text + ">";
}

// The check of a kernel's arguments that DUET_LAUNCH makes, one macro a pass. A kernel that is written
// for float alone is refused where the network stores something else.
std::string signature_macros(const Layer& layer, const KernelInterface& interface,
                             const std::string& stored) {
  std::string any;
  for (const Pass pass : kPasses) {
    any += (any.empty() ? "duet::same(#pass, \"" : " || duet::same(#pass, \"") +
           std::string(to_string(pass)) + "\")";
  }
  std::vector<std::string> names;
  for (const Pass pass : layer.passes()) names.emplace_back(to_string(pass));
  // A word that is no pass of any layer; what is one of another layer is told below.
  std::string text = "#define DUET_IS_PASS(pass) static_assert(" + any + ", \"" +
                     std::string(kSignatureMark) + std::string(layer.type()) +
                     " has no pass \" #pass \"; it has " + join(names) + "\")\n";
  for (const Pass pass : kPasses) {
    const std::string name(to_string(pass));
    text += "#define DUET_TAKES_" + name + "(kernel) ";
    const auto found = interface.passes.find(pass);
    if (found == interface.passes.end()) {
      text += "static_assert(!duet::kThere<decltype(kernel)>, \"" + std::string(kSignatureMark) +
              std::string(layer.type()) + " has no pass " + name + "; it has " + join(names) +
              "\")\n";
      continue;
    }
    const auto takes = [&](const std::string& type) {
      return "duet::Signature<decltype(kernel)>::template kTakes<" + types_of(found->second, type) +
             ">";
    };
    text += "static_assert(" + takes(stored) + " || " + takes("float") + ", \"" + kSignatureMark +
            name + " takes (" + arguments_text(found->second, stored) +
            ") and behind them, as needed, Workspace, State, Step and Training\"); "
            "static_assert(" +
            takes(stored) + " || !" + takes("float") + ", \"" + kRefusalMark +
            "stores float32 only, and 'math' is bf16\")\n";
  }
  return text;
}

// As a string of C++.
std::string quoted(const std::string& text) {
  std::string made = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') made += '\\';
    made += c;
  }
  return made + "\"";
}

}  // namespace

std::string numbered_source(const KernelFile& file) {
  return "#line 1 " + quoted(file.path.string()) + "\n" + file.source + "\n";
}

std::string source_text(const KernelFile& file, const Layer& layer,
                        const KernelInterface& interface, const std::vector<TunedValue>& tuned) {
  const bool half = layer.inputs()[0].dtype == DType::kBFloat16, gpu = file.device == Device::kGpu;
  const std::string stored = half ? (gpu ? "__nv_bfloat16" : "bfloat16") : "float";
  const std::string own_lines = "#line 1 \"Duet's own lines\"\n";
  std::string text = own_lines;
  if (half) text += gpu ? "#include <cuda_bf16.h>\n" : kCpuHalf;
  text += "using T = " + stored + ";\n";
  for (const auto& [type, name, value] : interface.constants) {
    text += "constexpr " + type + " " + name + " = " + value + ";\n";
  }
  text += kMacros;
  text += gpu ? kGpuMacros : kCpuMacros;
  text +=
      "namespace duet {\ntemplate <class... Others>\nconstexpr int tuned(const char* name, int "
      "value, Others...) {\n";
  for (const TunedValue& each : tuned) {
    text +=
        "  if (same(name, " + quoted(each.name) + ")) return " + std::to_string(each.value) + ";\n";
  }
  text += "  return value;\n}\n}  // namespace duet\n";
  text += signature_macros(layer, interface, stored);
  text += numbered_source(file);
  if (gpu) return text;
  text += own_lines + "using namespace duet::none;\n";
  for (const Pass pass : kPasses) {
    const std::string name(to_string(pass));
    const bool has = interface.passes.contains(pass);
    text += (has ? "DUET_PASS(" + name : "DUET_TAKES_" + name + "(::" + name) + ");\n";
  }
  return text;
}

}  // namespace duet
