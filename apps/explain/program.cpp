#include "program.h"

#include <algorithm>

#include "core/error.h"
#include "host_kernels.h"
#include "program_calls.h"
#include "program_text.h"
#include "values_text.h"

namespace duet {
namespace {

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
)";

class Writer {
 public:
  Writer(const RecordedLayer& recorded, const ProgramData& data, const ProgramTitle& title)
      : recorded_(recorded),
        data_(data),
        title_(title),
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
    return header() + includes() + checks() + kMemory + calls_.graph_functions() +
           host_functions(calls_.host_kernels(), recorded_) + main_function();
  }

 private:
  std::string header() const {
    std::string text =
        "// " + title_.layer + ": " + std::string(recorded_.layer->type()) + " by " + recorded_.id +
        ", " + std::string(to_string(recorded_.pass)) + ".\n" +
        commented(recorded_.layer->problem_text(), "") + "//\n" +
        commented(
            "The library's calls that Duet makes for it. What they give is compared "
            "with " +
                title_.values +
                ", written with this program: what Duet's "
                "reference gives in double for the same inputs, and what rounding may "
                "change.",
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
    return text + "\n" + std::string(kValuesText.substr(kValuesText.find("#include")));
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

  std::string memory_lines() const {
    std::string text = "\n" + commented("Memory of the GPU.");
    for (const NamedMemory& memory : recorded_.memory) {
      if (!calls_.memory().count(memory.name)) {
        if (zeroed(memory) > 0) throw std::logic_error("no call reads " + memory.name);
        continue;
      }
      using Role = NamedMemory::Role;
      const bool bytes = memory.role == Role::kState || memory.role == Role::kWorkspace;
      const std::string type = bytes ? "char" : element_type(memory.desc.dtype);
      const std::string name = memory.role == Role::kWorkspace ? "scratch" : memory.name;
      const std::string count =
          std::to_string(bytes ? static_cast<int64_t>(memory.bytes) : memory.desc.elements());
      const std::string what = memory.role == Role::kRead
                                   ? "on_gpu<" + type + ">(" + input(memory) + ")"
                                   : "room_on_gpu<" + type + ">(" + count + ")";
      if (zeroed(memory) > 0) {
        text += commented("0 where rounding decides what relu or the pooling passes on.");
      }
      text += "  " + type + "* " + name + " = " + what + ";" + remark(memory) + "\n";
    }
    return text + calls_.constants();
  }

  /// The expression for the initial values of an input tensor.
  std::string input(const NamedMemory& memory) const {
    const std::string text = input_of(recorded_, memory).text;
    const size_t count = zeroed(memory);
    if (count == 0) return text;
    return "zeroed(" + text + ", values.take(" + std::to_string(count) + "))";
  }
  size_t zeroed(const NamedMemory& memory) const {
    return memory.part == &LayerData::dy ? data_.zeroed[memory.index].size() : 0;
  }
  std::string remark(const NamedMemory& memory) const {
    if (memory.role == NamedMemory::Role::kState) return "  // from forward to backward";
    if (memory.role == NamedMemory::Role::kWorkspace) return "";
    const std::string layout = memory.desc.shape.rank() != 4         ? ""
                               : memory.desc.layout == Layout::kNHWC ? ", nhwc"
                                                                     : ", nchw";
    return "  // " + memory.desc.shape.to_string() + layout;
  }

  std::string comparisons() const {
    std::string text;
    for (const NamedMemory* output : outputs_of(recorded_)) {
      if (!calls_.memory().count(output->name)) {
        throw UnsupportedError("explain: the calls of " + std::string(to_string(recorded_.pass)) +
                               " do not write " + output->name);
      }
      std::string sizes;
      for (const size_t size : sizes_in_memory(output->desc)) {
        sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
      }
      text += "  right &= compare(\"" + output->name + "\", from_gpu(" + output->name + ", " +
              std::to_string(output->desc.elements()) + "), {" + sizes + "}, values);\n";
    }
    return text;
  }

  std::string main_function() const {
    return "\nint main(int argc, char** argv) {\n  Values values(argc > 1 ? argv[1] : \"" +
           title_.values + "\", " + std::to_string(count_of_values(recorded_, data_)) +
           ");\n"
           "  int gpus = 0;\n"
           "  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) {\n"
           "    std::printf(\"no GPU; this needs one, and a driver for CUDA %d.%d\\n\",\n"
           "                CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);\n"
           "    return 3;\n"
           "  }\n\n" +
           setup_ + questions_ + memory_lines() + "\n" + commented("The calls.") + run_ + "\n" +
           commented("The comparison.") + "  bool right = true;\n" + comparisons() +
           "  return right ? 0 : 1;\n}\n";
  }

  const RecordedLayer& recorded_;
  const ProgramData& data_;
  const ProgramTitle& title_;
  const Selection selection_;
  ProgramCalls calls_;
  std::string setup_, questions_, run_;
};

}  // namespace

std::string program_text(const RecordedLayer& recorded, const ProgramData& data,
                         const ProgramTitle& title) {
  return Writer(recorded, data, title).text();
}

}  // namespace duet
