#include "program_calls.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "host_kernels.h"
#include "plain_text.h"

namespace duet {
namespace {

constexpr size_t kColumns = 100;

bool starts(const std::string& text, const char* begin) { return text.rfind(begin, 0) == 0; }

/// The functions whose algorithm and workspace are asked for before.
bool is_convolution(const std::string& name) {
  return name == "cudnnConvolutionForward" || name == "cudnnConvolutionBiasActivationForward" ||
         name == "cudnnConvolutionBackwardData" || name == "cudnnConvolutionBackwardFilter";
}

/// "Forward", "BackwardData", "BackwardFilter"
std::string direction(const std::string& convolution) {
  if (convolution == "cudnnConvolutionBiasActivationForward") return "Forward";
  return convolution.substr(std::strlen("cudnnConvolution"));
}

std::string hexadecimal(uint64_t word) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llxull", static_cast<unsigned long long>(word));
  return text;
}

/// Of a handle, not of a descriptor.
bool sets_up_handle(const Record* record) {
  return record->arguments.front().type == "cudnnHandle_t" ||
         record->arguments.front().type == "cublasHandle_t";
}

/// What a lesson would say where a function comes up first.
std::string lesson_on(const std::string& function) {
  static const std::map<std::string, std::string> texts = {
      {"cudnnCreate", "The handle: the library's state on this GPU. Its kernels go to the stream."},
      {"cublasCreate",
       "The handle: the library's state on this GPU. Its kernels go to the stream; with a "
       "workspace "
       "of ours it allocates nothing by itself."},
      {"cudnnSetTensor4dDescriptor",
       "A descriptor says what memory means: its layout, type, and sizes, always in the order N C "
       "H "
       "W. It owns no memory, and one serves all tensors that are alike."},
      {"cudnnSetTensor4dDescriptorEx",
       "A descriptor with strides of its own: how many elements lie from one n, c, h, w to the "
       "next."},
      {"cudnnSetFilter4dDescriptor",
       "Weights have a type of descriptor of their own, K x C/groups x R x S; data type and format "
       "stand in another order in the call."},
      {"cudnnSetConvolution2dDescriptor",
       "How the filter moves: padding, stride, dilation; then the mode (networks mean "
       "CROSS_CORRELATION, in which the filter is not flipped) and the type of the sums."},
      {"cudnnSetConvolutionMathType",
       "The arithmetic. CUDNN_DEFAULT_MATH would let float32 be multiplied in TF32."},
      {"cudnnSetPooling2dDescriptor",
       "The window: mode, what becomes of a NaN, size, padding, stride; heights before widths."},
      {"cudnnSetActivationDescriptor",
       "The function, what becomes of a NaN, and a number that only some functions have."},
      {"cudnnSetOpTensorDescriptor", "An operation on two tensors, and the type it is done in."},
      {"cudnnSetDropoutDescriptor",
       "The share that is dropped, and the generator: it starts from the seed here, and its state "
       "lies in memory of ours."},
      {"cublasLtMatmulDescCreate",
       "cuBLASLt's descriptor of a product: the type of its sums, and of alpha and beta. cuBLAS is "
       "column-major: a row-major matrix is its own transpose to it."},
      {"cublasLtMatrixLayoutCreate",
       "The matrices, column-major: type, rows, columns, and the distance of two columns."},
      {"cufftMakePlanMany",
       "A plan of many transforms: sizes; then of the input and of the output the sizes in memory, "
       "the distance of neighbours, and the distance of transforms."},
      {"cudnnAddTensor", "y = 1 * b + 1 * y, with b's sizes of 1 spread over y's."},
      {"cudnnConvolutionBiasActivationForward",
       "y = identity(1 * conv(x, w) + 0 * z + b): the bias costs no kernel of its own. z may be y; "
       "times 0 it is not read."},
      {"cudnnConvolutionForward", "y = 1 * conv(x, w) + 0 * y. With beta 0, y is not read."},
      {"cudnnConvolutionBackwardData", "dx = 1 * (dy by w) + 0 * dx. With beta 0, dx is not read."},
      {"cudnnConvolutionBackwardFilter",
       "dw = 1 * (dy by x) + 0 * dw. With beta 1 it would be added to what dw holds."},
      {"cudnnConvolutionBackwardBias", "db = 1 * (the sum of dy) + 0 * db."},
      {"cudnnPoolingBackward", "y and x again: cuDNN keeps nothing between the passes."},
      {"cudnnActivationBackward", "Both y and x are wanted, though a function needs only one."},
      {"cudnnOpTensor", "C = op(alpha1 * A, alpha2 * B) + beta * C."},
      {"cudnnTransformTensor", "y = 1 * x + 0 * y, between descriptors that differ in strides."},
      {"cublasGemmEx",
       "C = alpha * op(A) op(B) + beta * C, column-major. The transposed equation is handed over, "
       "and nothing is moved."},
      {"cublasGemmStridedBatchedEx",
       "As many products as the batch has, their matrices a fixed distance apart."},
      {"cublasSgemv", "A matrix times a vector of ones: the sums of its rows, or of its columns."},
      {"cublasLtMatmul",
       "D = alpha * op(A) op(B) + beta * C, with the epilogue of the descriptor."},
      {"cublasSetMathMode", "What cuBLAS may do to float32 from here on."},
      {"cudnnBatchNormalizationForwardTraining",
       "y, the running statistics, and for backward the batch's mean and 1 / sqrt(var + eps)."},
      {"cudnnBatchNormalizationBackward",
       "dx, and the gradients of weight and bias: they have factors alpha and beta of their own."}};
  const auto found = texts.find(function);
  return found == texts.end() ? "" : found->second;
}

}  // namespace

std::string snake_case(const std::string& name) {
  std::string text;
  for (size_t i = 0; i < name.size(); ++i) {
    const bool upper = std::isupper(static_cast<unsigned char>(name[i]));
    if (upper && i > 0 && !std::isupper(static_cast<unsigned char>(name[i - 1]))) text += '_';
    text += static_cast<char>(std::tolower(static_cast<unsigned char>(name[i])));
  }
  const size_t desc = text.rfind("desc");
  if (desc != std::string::npos && desc > 0 && text[desc - 1] != '_') text.insert(desc, "_");
  return text;
}

std::string element_type(DType dtype) {
  if (dtype == DType::kBFloat16) return "__nv_bfloat16";
  return dtype == DType::kInt32 ? "int" : "float";
}

std::string checked(const std::string& function, const std::vector<std::string>& arguments) {
  const std::string begin = "  CHECK(" + function + "(";
  std::string text, line = begin;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool last = i + 1 == arguments.size();
    const std::string part = arguments[i] + (last ? "));" : ",");
    const size_t indent = begin.size() > 60 ? 10 : begin.size();
    if (i > 0 && line.size() + 1 + part.size() > kColumns) {
      text += line + "\n";
      line = std::string(indent, ' ') + part;
    } else {
      line += (i > 0 ? " " : "") + part;
    }
  }
  return text + line + "\n";
}

std::string commented(const std::string& text, const std::string& indent) {
  std::string lines, line = indent + "//";
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (line.size() + 1 + word.size() > kColumns) {
      lines += line + "\n";
      line = indent + "//";
    }
    line += " " + word;
    begin = end + 1;
  }
  return lines + line + "\n";
}

ProgramCalls::ProgramCalls(const RecordedLayer& recorded, const Selection& selection)
    : recorded_(recorded), selection_(selection) {
  int convolutions = 0, products = 0;
  for (const Record* record : selection.run) {
    int* const count = is_convolution(record->name)       ? &convolutions
                       : record->name == "cublasLtMatmul" ? &products
                                                          : nullptr;
    if (count) suffix_[record] = ++*count > 1 ? "_" + std::to_string(*count) : "";
  }
  name_objects();
}

std::string ProgramCalls::fresh(const std::string& name) {
  std::string unique = name;
  for (int number = 2; !names_.insert(unique).second; ++number) {
    unique = name + "_" + std::to_string(number);
  }
  return unique;
}

/// By what they are used for first: a descriptor of y is y_desc, whatever else it describes.
void ProgramCalls::name_objects() {
  std::vector<const Record*> records = selection_.run;
  records.insert(records.end(), selection_.setup.begin(), selection_.setup.end());
  for (const Record* record : records) {
    for (size_t i = 0; i < record->arguments.size(); ++i) {
      const RecordedArgument& argument = record->arguments[i];
      if (argument.kind != "object" || argument.text().empty()) continue;
      if (objects_.count(argument.text())) continue;
      std::string name = snake_case(argument.name);
      if (argument.type == "cudnnHandle_t") name = "cudnn";
      if (argument.type == "cublasHandle_t" || argument.type == "cublasLtHandle_t") name = "cublas";
      if (argument.type == "cudaStream_t") name = "stream";
      if (argument.type == "cufftHandle")
        name = record->name == "cufftExecC2R" ? "inverse_plan" : "plan";
      if (argument.type == "cudnnTensorDescriptor_t" ||
          argument.type == "cudnnFilterDescriptor_t") {
        const bool followed = i + 1 < record->arguments.size();
        const NamedMemory* memory =
            followed ? memory_at(recorded_, address_of(record->arguments[i + 1])) : nullptr;
        if (memory && memory->role != NamedMemory::Role::kState &&
            memory->role != NamedMemory::Role::kWorkspace) {
          name = memory->name + "_desc";
        }
      }
      objects_[argument.text()] = fresh(name);
    }
  }
}

bool ProgramCalls::uses(const std::string& library) const {
  const auto is = [&](const Record* record) {
    return record->kind == Record::Kind::kCall && starts(record->name, library.c_str());
  };
  return std::any_of(selection_.setup.begin(), selection_.setup.end(), is) ||
         std::any_of(selection_.run.begin(), selection_.run.end(), is);
}

std::string ProgramCalls::comment(const std::string& function) {
  const std::string text = lesson_on(function);
  if (text.empty() || !commented_.insert(function).second) return "";
  return "\n" + commented(text);
}

std::string ProgramCalls::scalar(const RecordedArgument& argument) {
  if (argument.type == "cuComplex") {
    const bool one = argument.value[0].get<float>() == 1.0f;
    const std::string name = one ? "complex_one" : "complex_zero";
    if (scalars_.insert(name).second) {
      declared_ += "  const cuComplex " + name + " = {" + (one ? "1" : "0") + ", 0};\n";
    }
    return "&" + name;
  }
  const float value = argument.value;
  std::string name = value == 1 ? "one" : value == 0 ? "zero" : "";
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(value));
  if (name.empty()) {
    name = "factor_" + std::string(text);
    for (char& letter : name) {
      if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
    }
  }
  if (scalars_.insert(name).second) {
    declared_ += "  const float " + name + " = " + text + ";\n";
  }
  return "&" + name;
}

/// Memory that the implementation holds itself: constants, by what is in them, or room for a library.
std::string ProgramCalls::held_memory(const Record& record, const RecordedArgument& argument,
                                      uintptr_t address) {
  for (const auto& [begin, bytes] : recorded_.contents) {
    if (address < begin || address >= begin + bytes.size()) continue;
    if (const auto found = held_.find(address); found != held_.end()) return found->second;
    // The run of equal words that begins here, or of halves for bfloat16.
    const auto run_of = [&, begin = begin](auto word, const auto& all) {
      size_t at = address - begin, count = 0;
      std::memcpy(&word, all.data() + at, sizeof word);
      auto other = word;
      for (; at + sizeof word <= all.size(); at += sizeof word, ++count) {
        std::memcpy(&other, all.data() + at, sizeof word);
        if (other != word) break;
      }
      return std::pair(word, count);
    };
    const auto [word, count] = run_of(uint32_t{0}, bytes);
    const auto [half, halves] = run_of(uint16_t{0}, bytes);
    std::string name, type = "float", value;
    size_t values = count;
    if (word == 0x3f800000u) {
      name = "ones", value = "1";
    } else if (half == 0x3f80u) {
      name = "narrow_ones", type = "__nv_bfloat16", value = "1", values = halves;
    } else if (word == 0) {
      name = "zeros", value = "0";
    } else {
      throw UnsupportedError("explain: " + record.name + " reads memory of the implementation's (" +
                             argument.name + ") that is neither ones nor zeros");
    }
    name = fresh(name);
    constants_ += "  " + type + "* " + name + " = on_gpu<" + type + ">(std::vector<float>(" +
                  std::to_string(values) + ", " + value + "));\n";
    return held_[address] = name;
  }
  if (const auto found = held_.find(address); found != held_.end()) return found->second;
  size_t bytes = 0;
  for (const Record& other : recorded_.records) {
    if (other.kind != Record::Kind::kAllocation) continue;
    if (std::stoull(other.name, nullptr, 16) == address) bytes = other.bytes;
  }
  if (bytes == 0 || argument.constant) {
    throw UnsupportedError("explain: " + record.name + " takes memory (" + argument.name +
                           ") that is no tensor of the layer's");
  }
  const std::string library = starts(record.name, "cublas") ? "cublas_" : "";
  const std::string name = fresh(library + snake_case(argument.name));
  declared_ += "  char* " + name + " = room_on_gpu<char>(" + std::to_string(bytes) + ");\n";
  return held_[address] = name;
}

std::string ProgramCalls::memory(const Record& record, const RecordedArgument& argument) {
  const uintptr_t address = address_of(argument);
  if (address == 0) return "nullptr";
  const NamedMemory* const named = memory_at(recorded_, address);
  std::string text, type;
  if (!named) {
    text = held_memory(record, argument, address);
    type = starts(text, "narrow")                          ? "__nv_bfloat16"
           : starts(text, "ones") || starts(text, "zeros") ? "float"
                                                           : "char";
  } else {
    const bool bytes =
        named->role == NamedMemory::Role::kState || named->role == NamedMemory::Role::kWorkspace;
    type = bytes ? "char" : element_type(named->desc.dtype);
    used_memory_.insert(named->name);
    text = named->role == NamedMemory::Role::kWorkspace ? "scratch" : named->name;
    const size_t offset = (address - named->address) / (bytes ? 1 : size_of(named->desc.dtype));
    if (offset > 0) text += " + " + std::to_string(offset);
  }
  if (argument.type == "void" || argument.type == type || argument.type.empty()) return text;
  return "reinterpret_cast<" + argument.type + "*>(" + text + ")";
}

std::string ProgramCalls::expression(const Record& record, const RecordedArgument& argument) {
  const std::string& kind = argument.kind;
  if (kind == "object") {
    if (argument.text().empty()) return "nullptr";
    const std::string& name = objects_.at(argument.text());
    return argument.type == "cublasLtHandle_t" ? "reinterpret_cast<cublasLtHandle_t>(" + name + ")"
                                               : name;
  }
  if (kind == "enum") return argument.text();
  if (kind == "number") return argument.text();
  if (kind == "scalar") return scalar(argument);
  if (kind == "memory") return memory(record, argument);
  throw UnsupportedError("explain: no text for the argument " + argument.name + " of " +
                         record.name);
}

std::string ProgramCalls::call(const Record& record,
                               const std::map<std::string, std::string>& instead) {
  std::vector<std::string> arguments;
  for (const RecordedArgument& argument : record.arguments) {
    const auto found = instead.find(argument.name);
    arguments.push_back(found != instead.end() ? found->second : expression(record, argument));
  }
  return checked(record.name, arguments);
}

std::string ProgramCalls::setup() {
  std::string text;
  std::set<std::string> streams;
  for (const auto* records : {&selection_.setup, &selection_.run}) {
    for (const Record* record : *records) {
      for (const RecordedArgument& argument : record->arguments) {
        if (argument.type == "cudaStream_t") streams.insert(objects_.at(argument.text()));
      }
    }
  }
  std::vector<const Record*> handles_first = selection_.setup;
  std::stable_partition(handles_first.begin(), handles_first.end(), sets_up_handle);
  for (const Record* record : handles_first) {
    if (record->name == "cublasLtMatmulDescSetAttribute") {
      if (record->argument("attr").text() == "CUBLASLT_MATMUL_DESC_BIAS_POINTER") continue;
    }
    std::string lines = statement(*record);
    text += std::exchange(declared_, "") + lines;
  }
  std::string before;
  for (const std::string& stream : streams) {
    before += "  cudaStream_t " + stream + ";\n  CHECK(cudaStreamCreateWithFlags(&" + stream +
              ", cudaStreamNonBlocking));\n";
  }
  return before + text;
}

/// A call that makes or sets something.
std::string ProgramCalls::statement(const Record& record) {
  if (record.name == "cublasLtMatmulDescSetAttribute") return attribute(record);
  if (record.name == "cufftMakePlanMany") return plan(record);
  for (const RecordedArgument& argument : record.arguments) {
    if (argument.kind != "made") continue;
    const std::string& name = objects_.at(argument.text());
    // What is said of the call that sets it belongs above all of its lines.
    std::string above = comment(record.name);
    for (const Record* other : selection_.setup) {
      const RecordedArgument& target = other->arguments.front();
      if (!above.empty()) break;
      if (target.kind == "object" && target.text() == argument.text()) above = comment(other->name);
    }
    return (above.empty() ? "\n" : above) + "  " + argument.type + " " + name + ";\n" +
           call(record, {{argument.name, "&" + name}});
  }
  return comment(record.name) + call(record);
}

std::string ProgramCalls::attribute(const Record& record) {
  const std::string which = record.argument("attr").text();
  uint64_t number = 0;
  const nlohmann::json& bytes = record.argument("buf").value;
  for (size_t i = 0; i < bytes.size() && i < sizeof number; ++i) {
    number |= bytes[i].get<uint64_t>() << (8 * i);
  }
  std::string type, value, name;
  if (which == "CUBLASLT_MATMUL_DESC_TRANSA" || which == "CUBLASLT_MATMUL_DESC_TRANSB") {
    type = "cublasOperation_t", value = number == 1 ? "CUBLAS_OP_T" : "CUBLAS_OP_N";
    name = which.back() == 'A' ? "op_a" : "op_b";
  } else if (which == "CUBLASLT_MATMUL_DESC_EPILOGUE") {
    static const std::map<uint64_t, const char*> epilogues = {{2, "CUBLASLT_EPILOGUE_RELU"},
                                                              {4, "CUBLASLT_EPILOGUE_BIAS"},
                                                              {6, "CUBLASLT_EPILOGUE_RELU_BIAS"},
                                                              {512, "CUBLASLT_EPILOGUE_BGRADB"}};
    type = "cublasLtEpilogue_t", value = epilogues.at(number), name = "epilogue";
  } else if (which == "CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE") {
    type = "cudaDataType_t", value = number == 0 ? "CUDA_R_32F" : "CUDA_R_16BF";
    name = "bias_type";
  } else if (which == "CUBLASLT_MATMUL_DESC_BIAS_POINTER") {
    RecordedArgument pointer = {"bias", "memory", "void", nullptr, true};
    char address[32];
    std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(number));
    pointer.value = address;
    type = "void*", value = memory(record, pointer), name = "bias";
  } else {
    throw UnsupportedError("explain: no text for " + which);
  }
  name = fresh(name);
  return "  const " + type + " " + name + " = " + value + ";\n" +
         call(record, {{"buf", "&" + name}, {"sizeInBytes", "sizeof " + name}});
}

std::string ProgramCalls::plan(const Record& record) {
  std::string text = comment(record.name);
  std::map<std::string, std::string> instead;
  const std::string& name = objects_.at(record.argument("plan").text());
  for (const char* array : {"n", "inembed", "onembed"}) {
    const std::string variable = fresh(name + "_" + (*array == 'n' ? "sizes" : array));
    const nlohmann::json& value = record.argument(array).value;
    text += "  int " + variable + "[] = {" + value[0].dump() + ", " + value[1].dump() + "};\n";
    instead[array] = variable;
  }
  plans_.push_back(name + "_bytes");
  text += "  size_t " + plans_.back() + " = 0;\n";
  instead["workSize"] = "&" + plans_.back();
  return text + call(record, instead);
}

/// The question about a convolution's workspace as the layer asked it last, with the same descriptors
/// and algorithm.
static const Record* asked(const RecordedLayer& recorded, const Record& convolution) {
  std::set<std::string> objects;
  for (const RecordedArgument& argument : convolution.arguments) {
    if (argument.kind == "object") objects.insert(argument.text());
  }
  const std::string name = "cudnnGetConvolution" + direction(convolution.name) + "WorkspaceSize";
  const Record* found = nullptr;
  for (const Record& record : recorded.records) {
    if (record.name != name) continue;
    if (record.argument("algo").text() != convolution.argument("algo").text()) continue;
    const auto known = [&](const RecordedArgument& argument) {
      return argument.kind != "object" || objects.count(argument.text());
    };
    if (std::all_of(record.arguments.begin(), record.arguments.end(), known)) found = &record;
  }
  return found;
}

std::string ProgramCalls::convolution_question(const Record& record) {
  const Record* const question = asked(recorded_, record);
  if (!question) throw UnsupportedError("explain: the workspace of " + record.name + " is unknown");
  const std::string suffix = suffix_.at(&record), to = direction(record.name);
  const std::string type = to == "Forward" ? "Fwd" : to == "BackwardData" ? "BwdData" : "BwdFilter";
  const std::string winograd = type == "Fwd" ? "CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED"
                               : type == "BwdData"
                                   ? "CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED"
                                   : "CUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED";
  const RecordedArgument& algorithm = question->argument("algo");
  std::vector<std::string> arguments;  // the handle and the descriptors
  for (const RecordedArgument& argument : question->arguments) {
    if (argument.kind == "object") arguments.push_back(expression(*question, argument));
  }
  const bool fused = record.name == "cudnnConvolutionBiasActivationForward";
  std::string text = "\n";
  if (recorded_.measured) {
    text += commented(
        "The algorithm: the same sums can be had as a matrix product, by FFT, by Winograd's "
        "transform. Duet has timed those that cuDNN offers for these sizes, and keeps the fastest "
        "whose results are exact enough and repeat.");
  } else if (fused) {
    text += commented(
        "The algorithm was not measured: no GPU was there when this was written. This is the only "
        "one that takes the identity for its activation.");
  } else {
    text += commented(
        "The algorithm was not measured: no GPU was there when this was written. So cuDNN is asked "
        "for its guess here, and the first that repeats is taken, but for Winograd's transform of "
        "large tiles, which errs as much as TF32 does; Duet times them all.");
  }
  const bool ask = !recorded_.measured && !fused;
  text += std::string("  ") + (ask ? "" : "const ") + "cudnnConvolution" + type +
          "Algo_t algorithm" + suffix + " = " + algorithm.text() + ";\n";
  if (ask) {
    text +=
        fill("  cudnnConvolution$typeAlgoPerf_t proposals$suffix[8];\n  int proposed$suffix = 0;\n",
             {{"type", type}, {"suffix", suffix}});
    std::vector<std::string> more = arguments;
    more.insert(more.end(), {"8", "&proposed" + suffix, "proposals" + suffix});
    text += checked("cudnnGetConvolution" + to + "Algorithm_v7", more);
    text += fill(R"(  for (int i = proposed$suffix; i-- > 0;) {
    const bool works = proposals$suffix[i].status == CUDNN_STATUS_SUCCESS;
    const bool repeats = proposals$suffix[i].determinism == CUDNN_DETERMINISTIC;
    const bool exact = proposals$suffix[i].algo != $winograd;
    if (works && repeats && exact) algorithm$suffix = proposals$suffix[i].algo;
  }
)",
                 {{"suffix", suffix}, {"winograd", winograd}});
  }
  text += "\n" + commented("The workspace that this algorithm needs.") +
          fill("  size_t workspace$suffix_bytes = 0;\n", {{"suffix", suffix}});
  arguments.insert(arguments.end(), {"algorithm" + suffix, "&workspace" + suffix + "_bytes"});
  text += checked(question->name, arguments);
  return text + fill("  char* workspace$suffix = room_on_gpu<char>(workspace$suffix_bytes);\n",
                     {{"suffix", suffix}});
}

std::string ProgramCalls::product_question(const Record& record) {
  const std::string suffix = suffix_.at(&record);
  const auto text_of = [&](const char* name) { return expression(record, record.argument(name)); };
  std::vector<std::string> arguments;
  for (const char* name : {"lightHandle", "computeDesc", "Adesc", "Bdesc", "Cdesc", "Ddesc"}) {
    arguments.push_back(text_of(name));
  }
  if (recorded_.measured) {
    std::string words;
    for (const nlohmann::json& word : record.argument("algo").value) {
      words += (words.empty() ? "" : ", ") + hexadecimal(word.get<uint64_t>());
    }
    arguments.insert(arguments.end(), {"&algorithm" + suffix, "&algorithm_check" + suffix});
    return "\n" +
           commented(
               "The algorithm, eight opaque words: Duet has timed what the heuristics propose, and "
               "keeps the fastest. It belongs to this version of cuBLASLt, which is asked whether "
               "it "
               "would run it.") +
           fill(
               "  const cublasLtMatmulAlgo_t algorithm$suffix = {{$words}};\n"
               "  cublasLtMatmulHeuristicResult_t algorithm_check$suffix = {};\n",
               {{"suffix", suffix}, {"words", words}}) +
           checked("cublasLtMatmulAlgoCheck", arguments) +
           fill(
               "  const size_t workspace$suffix_bytes = algorithm_check$suffix.workspaceSize;\n"
               "  char* workspace$suffix = room_on_gpu<char>(workspace$suffix_bytes);\n",
               {{"suffix", suffix}});
  }
  arguments.insert(arguments.end(),
                   {"preference" + suffix, "1", "&proposal" + suffix, "&proposed" + suffix});
  return "\n" +
         commented(
             "The algorithm was not measured: no GPU was there when this was written. The "
             "heuristics' "
             "first proposal is taken here; Duet times them all.") +
         fill(R"(  cublasLtMatmulPreference_t preference$suffix;
  CHECK(cublasLtMatmulPreferenceCreate(&preference$suffix));
  const size_t most_bytes$suffix = size_t{32} << 20;
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference$suffix,
                                             CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                             &most_bytes$suffix, sizeof most_bytes$suffix));
  // Sums may not be split in ways that add up in anything less than the compute type.
  const uint32_t reductions$suffix = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  CHECK(cublasLtMatmulPreferenceSetAttribute(preference$suffix,
                                             CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                             &reductions$suffix, sizeof reductions$suffix));
  cublasLtMatmulHeuristicResult_t proposal$suffix = {};
  int proposed$suffix = 0;
)",
              {{"suffix", suffix}}) +
         checked("cublasLtMatmulAlgoGetHeuristic", arguments) +
         fill(
             "  const cublasLtMatmulAlgo_t algorithm$suffix = proposal$suffix.algo;\n"
             "  const size_t workspace$suffix_bytes = proposal$suffix.workspaceSize;\n"
             "  char* workspace$suffix = room_on_gpu<char>(workspace$suffix_bytes);\n",
             {{"suffix", suffix}});
}

std::string ProgramCalls::questions() {
  std::string text;
  for (const auto* record : selection_.run) {
    if (is_convolution(record->name)) text += convolution_question(*record);
  }
  if (!plans_.empty()) {
    std::string most = plans_.front();
    for (size_t i = 1; i < plans_.size(); ++i) most = "std::max(" + most + ", " + plans_[i] + ")";
    text += "\n" + commented("Work area of the transforms, which run one after the other.") +
            "  char* work_area = room_on_gpu<char>(" + most + ");\n";
  }
  return text;
}

std::string ProgramCalls::run() {
  std::string text;
  std::string pass;
  for (const Record* record : selection_.run) {
    if (record->kind == Record::Kind::kMark) {
      pass = record->name.substr(std::strlen("pass "));
      if (selection_.run.front() != selection_.run.back() &&
          (!text.empty() || pass != to_string(recorded_.pass))) {
        text += "\n" + commented("---- " + pass +
                                 (pass == to_string(recorded_.pass)
                                      ? ""
                                      : ", which leaves what comes after needs") +
                                 " ----");
        commented_.clear();
      }
      continue;
    }
    std::string lines;
    if (record->kind == Record::Kind::kKernel) {
      lines = kernel(*record);
    } else if (suffix_.count(record)) {
      const std::string suffix = suffix_.at(record);
      std::map<std::string, std::string> instead = {
          {"algo", "algorithm" + suffix},
          {"workSpace", "workspace" + suffix},
          {"workspace", "workspace" + suffix},
          {"workSpaceSizeInBytes", "workspace" + suffix + "_bytes"},
          {"workspaceSizeInBytes", "workspace" + suffix + "_bytes"}};
      if (record->name == "cublasLtMatmul") instead["algo"] = "&algorithm" + suffix;
      if (record->name == "cublasLtMatmul") lines = product_question(*record);
      lines += comment(record->name) + call(*record, instead);
    } else if (record->name == "cufftSetWorkArea") {
      lines = call(*record, {{"workArea", "work_area"}});
    } else {
      lines = statement(*record);
    }
    text += std::exchange(declared_, "") + lines;
  }
  return text;
}

}  // namespace duet
