#include "program_calls.h"

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "program_text.h"

namespace duet {
namespace {

bool starts(const std::string& text, const char* begin) { return text.rfind(begin, 0) == 0; }

/// The functions whose algorithm and workspace are asked for before.
bool is_convolution(const std::string& name) {
  return name == "cudnnConvolutionForward" || name == "cudnnConvolutionBiasActivationForward" ||
         name == "cudnnConvolutionBackwardData" || name == "cudnnConvolutionBackwardFilter";
}

/// Of a handle, not of a descriptor.
bool sets_up_handle(const Record* record) {
  return record->arguments.front().type == "cudnnHandle_t" ||
         record->arguments.front().type == "cublasHandle_t";
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
  name_descriptors();
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
  if (starts(record.name, "cudnnBackend")) return descriptor(record);
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
