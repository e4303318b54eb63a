#include "user_kernels/prelude.h"

namespace duet {
namespace {

// What is the same for every file. The tables' rows are those of prelude.h.
constexpr const char* kMacros = R"cuda(
struct dim {
  long long x, y, z;
  constexpr dim(long long x, long long y = 1, long long z = 1) : x(x), y(y), z(z) {}
};
template <class A, class B>
constexpr auto ceil_div(A a, B b) { return (a + b - 1) / b; }

/// What a kernel may take behind the tensors, in any order.
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

template <class Kernel> struct Signature;
template <class... Arguments> struct Signature<void(Arguments...)> {
  template <class Tensors> static constexpr bool kTakes = Match<Tensors, Types<Arguments...>>::kValue;
  static constexpr int extras() {
    int digits = 0;
    ((digits = kExtra<Arguments> ? digits * 8 + kExtra<Arguments> : digits), ...);
    return digits;
  }
};
template <class... Arguments> struct Signature<void (&)(Arguments...)> : Signature<void(Arguments...)> {};

struct Launch { char pass[24]; long long grid[3], block[3], shared; int line, extras; };
struct Bytes { char pass[24]; long long bytes; };
struct Requires { char pass[24]; int line, holds; char reason[200]; };
struct Tune { char name[64]; long long values[16], count; };
template <int line, auto kernel> __constant__ int kernel_of = 0;

constexpr Launch launch(dim grid, dim block, long long shared = 0) {
  return {{}, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, shared, 0, 0};
}
template <int size> constexpr Launch named(const char (&pass)[size], int line, int extras, Launch row) {
  for (int i = 0; i < size; ++i) row.pass[i] = pass[i];
  row.line = line;
  row.extras = extras;
  return row;
}
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
  extern "C" __constant__ duet::Requires DUET_JOIN(duet_requires_, __LINE__) = \
      {#pass, __LINE__, (condition), reason}
#define DUET_TUNE(name, ...) \
  constexpr int name = duet::tuned(#name, __VA_ARGS__); \
  extern "C" __constant__ duet::Tune duet_tune_##name = duet::tune(#name, __VA_ARGS__)
#define DUET_WORKSPACE(pass, size) \
  extern "C" __constant__ duet::Bytes DUET_JOIN(duet_bytes_, __LINE__) = {#pass, (long long)(size)}
#define DUET_STATE(size) \
  extern "C" __constant__ duet::Bytes DUET_JOIN(duet_bytes_, __LINE__) = {"", (long long)(size)}
#define DUET_LAUNCH(pass, kernel, ...) \
  DUET_TAKES_##pass(kernel); \
  template __constant__ int duet::kernel_of<__LINE__, kernel>; \
  extern "C" __constant__ duet::Launch DUET_JOIN(duet_launch_, __LINE__) = \
      duet::named(#pass, __LINE__, duet::Signature<decltype(kernel)>::extras(), duet::launch(__VA_ARGS__))
)cuda";

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
  std::string text;
  std::vector<std::string> names;
  for (const Pass pass : layer.passes()) names.emplace_back(to_string(pass));
  for (const Pass pass :
       {Pass::kForward, Pass::kBackward, Pass::kBackwardData, Pass::kBackwardFilter}) {
    const std::string name(to_string(pass));
    text += "#define DUET_TAKES_" + name + "(kernel) ";
    const auto found = interface.passes.find(pass);
    if (found == interface.passes.end()) {
      text += "static_assert(false, \"" + std::string(kSignatureMark) + std::string(layer.type()) +
              " has no pass " + name + "; it has " + join(names) + "\")\n";
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

std::string source_text(const KernelFile& file, const Layer& layer,
                        const KernelInterface& interface, const std::vector<TunedValue>& tuned) {
  const bool half = layer.inputs()[0].dtype == DType::kBFloat16;
  const std::string stored = half ? "__nv_bfloat16" : "float";
  std::string text = "#line 1 \"Duet's own lines\"\n";
  if (half) text += "#include <cuda_bf16.h>\n";
  text += "using T = " + stored + ";\n";
  for (const auto& [type, name, value] : interface.constants) {
    text += "constexpr " + type + " " + name + " = " + value + ";\n";
  }
  text += kMacros;
  text +=
      "namespace duet {\ntemplate <class... Others>\nconstexpr int tuned(const char* name, int "
      "value, Others...) {\n";
  for (const TunedValue& each : tuned) {
    text +=
        "  if (same(name, " + quoted(each.name) + ")) return " + std::to_string(each.value) + ";\n";
  }
  text += "  return value;\n}\n}  // namespace duet\n";
  text += signature_macros(layer, interface, stored);
  return text + "#line 1 " + quoted(file.path.string()) + "\n" + file.source + "\n";
}

}  // namespace duet
