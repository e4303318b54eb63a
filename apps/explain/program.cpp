#include "program.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/mixed_labels.h"
#include "plain_loops.h"
#include "plain_text.h"
#include "program_calls.h"

namespace duet {
namespace {

constexpr double kMostTerms = 3e8;  // of the plain loops of an output; some seconds

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr const char* kCheck = R"(
// Every call returns a status, and 0 is success in all of these libraries.
void fail(const char* call, const char* text) {
  std::printf("%s\n  -> %s\n", call, text);
  std::exit(1);
}
void check(const char* call, cudaError_t status) {
  if (status != cudaSuccess) fail(call, cudaGetErrorString(status));
}
)";
constexpr const char* kCheckCudnn = R"(void check(const char* call, cudnnStatus_t status) {
  char text[512] = {};
  if (status == CUDNN_STATUS_SUCCESS) return;
  cudnnGetLastErrorString(text, sizeof text);  // often says which condition did not hold
  fail(call, text[0] ? text : cudnnGetErrorString(status));
}
)";
constexpr const char* kCheckCublas = R"(void check(const char* call, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(call, cublasGetStatusName(status));
}
)";
constexpr const char* kCheckCufft = R"(void check(const char* call, cufftResult status) {
  if (status != CUFFT_SUCCESS) fail(call, ("cufftResult " + std::to_string(status)).c_str());
}
)";

constexpr const char* kMemory = R"(#define CHECK(call) check(#call, (call))

/// Memory of the GPU for so many values. It begins as NaN, so that an output that nobody writes shows.
template <class T>
T* room_on_gpu(size_t count) {
  T* memory = nullptr;
  CHECK(cudaMalloc(&memory, std::max(count, size_t(1)) * sizeof(T)));
  CHECK(cudaMemset(memory, 0xff, count * sizeof(T)));
  CHECK(cudaDeviceSynchronize());
  return memory;
}
/// Writes values to the GPU, in the type that it stores.
template <class T>
void put(const std::vector<float>& values, T* memory) {
  std::vector<T> stored;
  for (const float value : values) stored.push_back(T(value));
  CHECK(cudaMemcpy(memory, stored.data(), stored.size() * sizeof(T), cudaMemcpyHostToDevice));
  CHECK(cudaDeviceSynchronize());
}
template <class T>
T* on_gpu(const std::vector<float>& values) {
  T* memory = room_on_gpu<T>(values.size());
  put(values, memory);
  return memory;
}
/// The values, once the GPU has done all that was queued.
template <class T>
std::vector<double> from_gpu(const T* memory, size_t count) {
  std::vector<T> stored(count);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(stored.data(), memory, count * sizeof(T), cudaMemcpyDeviceToHost));
  std::vector<double> values;
  for (const T value : stored) values.push_back(double(float(value)));
  return values;
}

/// Multiples of 1/128 within +-1, which float32, TF32 and bfloat16 all hold exactly.
std::vector<float> pattern(size_t count, unsigned seed) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = float(int((i * 37 + seed * 101) % 251) - 125) / 128;
  }
  return values;
}
)";

constexpr const char* kExpected = R"(
/// What a plain loop gives, and the size of the terms of its sum, which rounding is a share of.
struct Expected {
  double value = 0, size = 0;
  void add(double term) {
    value += term;
    size += std::fabs(term);
  }
};
Expected exactly(double value) { return {value, 0}; }
Expected within(double size, double value) { return {value, size + std::fabs(value)}; }
)";

constexpr const char* kCompare = R"(
int wrong = 0;

/// Every `step`th value against the plain loop's: none may differ by more than `limit` times the size.
void compare(const char* name, const std::vector<double>& found, Expected (*plain)(size_t),
             double limit, size_t step) {
  size_t compared = 0;
  double largest = 0;
  for (size_t i = 0; i < found.size(); i += step, ++compared) {
    const Expected expected = plain(i);
    const double difference = std::fabs(found[i] - expected.value);
    if (expected.size > 0) largest = std::fmax(largest, difference / expected.size);
    if (difference <= limit * expected.size) continue;  // a NaN is no such difference
    std::printf("%s: WRONG: value %zu is %.9g, expected %.9g\n", name, i, found[i], expected.value);
    ++wrong;
    return;
  }
  std::printf("%s: %zu values agree; largest difference %.2g of the terms' size, allowed %.2g\n",
              name, compared, largest, limit);
}
)";

class Writer {
 public:
  Writer(const RecordedLayer& recorded, const ProgramTitle& title, const PlainLoops& loops)
      : recorded_(recorded),
        title_(title),
        loops_(loops),
        selection_(select(recorded)),
        calls_(recorded, selection_) {
    setup_ = calls_.setup();
    run_ = calls_.run();
    questions_ = calls_.questions();
  }

  std::string text() {
    bool shown = false;
    for (const Record* record : selection_.run) shown |= record->kind == Record::Kind::kCall;
    if (!shown) {
      throw UnsupportedError("explain: " + std::string(recorded_.layer->type()) + " by " +
                             recorded_.id + " calls no library in " +
                             std::string(to_string(recorded_.pass)));
    }
    const std::string main = main_function();
    return header() + includes() + checks() + kMemory + calls_.graph_functions() + values() +
           kExpected + "\n" + loops_.functions + prepare() + calls_.host_functions() + kCompare +
           main;
  }

 private:
  std::string header() const {
    std::string text = "// " + title_.layer + ": " + std::string(recorded_.layer->type()) + " by " +
                       recorded_.id + ", " + std::string(to_string(recorded_.pass)) + ".\n" +
                       commented(recorded_.layer->problem_text(), "") + "//\n" +
                       commented(
                           "The library's calls that Duet makes for it, and the definition as "
                           "plain loops, which every value is compared with.",
                           "");
    if (!recorded_.measured) {
      text += commented(
          "Written on a machine without a GPU: the algorithm was not measured, and no library was "
          "asked for it.",
          "");
    }
    if (recorded_.measured && !recorded_.detail.empty()) {
      text += commented("Chosen: " + recorded_.detail + ".", "");
    }
    std::string libraries;
    if (calls_.uses("cudnn")) libraries += " -lcudnn";
    if (calls_.uses("cublasLt")) libraries += " -lcublasLt";
    if (calls_.uses("cublas")) libraries += " -lcublas";
    if (calls_.uses("cufft")) libraries += " -lcufft";
    return text + "//\n//   cuda=/usr/local/cuda\n//   g++ -std=c++17 -O1 " + title_.file +
           " -o explained -I$cuda/include -L$cuda/lib64" + libraries + " -lcudart\n" +
           "//\n// Ends with 0 if every value is right, with 1 if one is not or a call fails, and "
           "with 3 without a\n// GPU.\n";
  }

  std::string includes() const {
    std::string text;
    if (calls_.uses("cublasLt")) text += "#include <cublasLt.h>\n";
    if (calls_.uses("cublas")) text += "#include <cublas_v2.h>\n";
    if (has(all_text(), "__nv_bfloat16")) text += "#include <cuda_bf16.h>\n";
    text += "#include <cuda_runtime.h>\n";
    if (calls_.uses("cudnn")) text += "#include <cudnn.h>\n";
    if (calls_.uses("cufft")) text += "#include <cufft.h>\n";
    return text +
           "\n#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <cstdio>\n"
           "#include <cstdlib>\n#include <string>\n#include <vector>\n";
  }
  std::string all_text() const {
    std::string types;
    for (const NamedMemory& memory : recorded_.memory) types += element_type(memory.desc.dtype);
    return setup_ + run_ + calls_.constants() + types;
  }

  std::string checks() const {
    std::string text = kCheck;
    if (calls_.uses("cudnn")) text += kCheckCudnn;
    if (calls_.uses("cublas")) text += kCheckCublas;
    if (calls_.uses("cufft")) text += kCheckCufft;
    return text;
  }

  /// Whether the calls or the loops use this tensor's values.
  bool wants(const NamedMemory& memory) const {
    return memory.role == NamedMemory::Role::kRead &&
           (calls_.memory().count(memory.name) ||
            has(loops_.functions + loops_.prepare, memory.name + "_values"));
  }

  std::string values() const {
    std::string text = "\n// Every tensor's values, in the order in which they lie in memory.\n";
    int seed = 0;
    for (const NamedMemory& memory : recorded_.memory) {
      ++seed;
      if (!wants(memory)) continue;
      text += "std::vector<float> " + memory.name + "_values = pattern(" +
              std::to_string(memory.desc.elements()) + ", " + std::to_string(seed) + ");  // " +
              memory.desc.shape.to_string() +
              (memory.desc.shape.rank() == 4
                   ? (memory.desc.layout == Layout::kNHWC ? ", nhwc" : ", nchw")
                   : "") +
              "\n";
    }
    return text;
  }

  std::string prepare() const {
    if (loops_.prepare.empty()) return "";
    return "\n/// What the functions above find computed.\nvoid prepare() {\n" + loops_.prepare +
           "}\n";
  }

  std::string memory_lines() const {
    std::string text = "\n" + commented("Memory of the GPU.");
    for (const NamedMemory& memory : recorded_.memory) {
      if (!calls_.memory().count(memory.name)) continue;
      using Role = NamedMemory::Role;
      const bool bytes = memory.role == Role::kState || memory.role == Role::kWorkspace;
      const std::string type = bytes ? "char" : element_type(memory.desc.dtype);
      const std::string name = memory.role == Role::kWorkspace ? "scratch" : memory.name;
      const std::string count =
          std::to_string(bytes ? static_cast<int64_t>(memory.bytes) : memory.desc.elements());
      const std::string what = memory.role == Role::kRead
                                   ? "on_gpu<" + type + ">(" + memory.name + "_values)"
                                   : "room_on_gpu<" + type + ">(" + count + ")";
      text += "  " + type + "* " + name + " = " + what + ";" +
              (memory.role == Role::kState ? "  // from forward to backward" : "") + "\n";
    }
    return text + calls_.constants();
  }

  /// Values that a pattern is none of.
  std::string special_values() const {
    std::string text;
    const Layer& layer = *recorded_.layer;
    if (layer.type() == "conv2d_pool_relu" && layer.options().math == Math::kFP32) {
      text += commented(
                  "Finer values: of equal results in a window, rounding would decide which is the "
                  "largest.") +
              "  for (size_t i = 0; i < x_values.size(); ++i) {\n"
              "    x_values[i] += float(i * 7919 % 65521) / (1 << 24);\n  }\n";
    }
    for (const NamedMemory& memory : recorded_.memory) {
      if (!wants(memory)) continue;
      if (memory.name == "running_var") {
        text += "  for (float& value : running_var_values) value = 1 + value / 2;\n";
      }
      // A normalisation that keeps values apart, also in bfloat16.
      if (memory.name == "weight") {
        text += "  for (float& value : weight_values) value = 1 + value / 2;\n";
      }
      if (memory.name == "bias") text += "  for (float& value : bias_values) value /= 8;\n";
      if (memory.name == "labels" && !are_mixed(memory.desc, layer.inputs()[0])) {
        text += "  for (size_t i = 0; i < rows; ++i) labels_values[i] = float(i % classes);\n";
      } else if (memory.name == "labels") {
        text += R"(  for (size_t n = 0; n < rows; ++n) {
    labels_values[3 * n] = float(n % classes);
    labels_values[3 * n + 1] = float((2 * n + 1) % classes);
    labels_values[3 * n + 2] = float(n * 9973 % size_t(whole + 1));
  }
)";
      }
      if (memory.name == "dloss") text += "  dloss_values[0] = 1;\n";
    }
    return text;
  }

  /// The elements of an output. Throws UnsupportedError if no call has it.
  int64_t written_elements(const std::string& name) const {
    const auto is_it = [&](const NamedMemory& memory) { return memory.name == name; };
    const auto found = std::find_if(recorded_.memory.begin(), recorded_.memory.end(), is_it);
    if (found != recorded_.memory.end() && calls_.memory().count(name)) {
      return found->desc.elements();
    }
    throw UnsupportedError("explain: the calls of " + std::string(to_string(recorded_.pass)) +
                           " do not write " + name);
  }

  std::string comparisons() const {
    std::string text;
    if (const std::string& name = loops_.found; !name.empty()) {
      text += "  " + name + "_found = from_gpu(" + name + ", " +
              std::to_string(written_elements(name)) + ");\n";
    }
    if (!loops_.prepare.empty()) text += "  prepare();\n";
    for (const PlainLoops::Output& output : loops_.outputs) {
      const int64_t count = written_elements(output.name);
      const double terms = static_cast<double>(count) * static_cast<double>(output.terms);
      int64_t step = static_cast<int64_t>(std::ceil(terms / kMostTerms));
      if (step > 1) {
        step |= 1;
        text += commented("All would be " + std::to_string(static_cast<int64_t>(terms / 1e6)) +
                          " million terms, so that some are taken.");
      }
      char limit[32];
      std::snprintf(limit, sizeof limit, "%g", output.limit);
      text += "  compare(\"" + output.name + "\", from_gpu(" + output.name + ", " +
              std::to_string(count) + "), plain_" + output.name + ", " + limit + ", " +
              std::to_string(step) + ");  // " + output.reason + "\n";
    }
    return text + loops_.checks;
  }

  std::string main_function() const {
    return "\nint main() {\n"
           "  int gpus = 0;\n"
           "  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {\n"
           "    std::printf(\"no GPU; this needs one, and a driver for CUDA %d.%d\\n\",\n"
           "                CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);\n"
           "    return 3;\n"
           "  }\n" +
           special_values() + "\n" + setup_ + questions_ + memory_lines() + "\n" +
           commented("The calls.") + run_ + "\n" + commented("The comparison.") + comparisons() +
           "  return wrong == 0 ? 0 : 1;\n}\n";
  }

  const RecordedLayer& recorded_;
  const ProgramTitle& title_;
  const PlainLoops& loops_;
  const Selection selection_;
  ProgramCalls calls_;
  std::string setup_, questions_, run_;
};

}  // namespace

std::string program_text(const RecordedLayer& recorded, const ProgramTitle& title) {
  const auto loops = plain_loops(*recorded.layer, recorded.pass);
  if (!loops) {
    throw UnsupportedError("explain has no plain loop for layers of type " +
                           std::string(recorded.layer->type()));
  }
  return Writer(recorded, title, *loops).text();
}

}  // namespace duet
