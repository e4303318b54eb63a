// A library for LD_PRELOAD that stands between a program and NVIDIA's libraries, and writes down what
// the program calls: the functions in recorded_functions.cpp with all arguments, and kernels by their
// names. With a GPU every call goes on to the library. Without one, what needs a GPU is answered here
// (stand_in.cpp): with success, tokens for handles, and memory of the host for memory of the device.
//
// recording.h is what the program sees of this.
#pragma once

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cudnn.h>
#include <cufft.h>
#include <dlfcn.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "enum_name.h"

namespace duet::recorder {

using Json = nlohmann::json;

/// Whether this answers for a GPU that is not there.
bool stands_in();

/// The function of that name in the library behind this one.
void* next_symbol(const char* name);
template <class Function>
Function* next_of(const char* name) {
  return reinterpret_cast<Function*>(next_symbol(name));
}

void add(Json record);
std::string text_of(const void* address);
/// A descriptor of cuDNN's graph API. Its memory may have been another's before: `made` gives it a
/// token of its own.
std::string backend_token(const void* descriptor, bool made = false);

/// Calls of this thread that have not returned: what a library calls itself is not recorded.
inline thread_local int depth = 0;
struct Inside {
  Inside() { ++depth; }
  ~Inside() { --depth; }
};

// ---- arguments, by their types ----

/// Things that a library makes and names by a pointer.
#define DUET_OBJECTS(one)                                                                     \
  one(cudnnHandle_t) one(cudnnTensorDescriptor_t) one(cudnnFilterDescriptor_t)                \
      one(cudnnConvolutionDescriptor_t) one(cudnnActivationDescriptor_t)                      \
          one(cudnnPoolingDescriptor_t) one(cudnnOpTensorDescriptor_t) one(cublasHandle_t)    \
              one(cublasLtHandle_t) one(cublasLtMatmulDesc_t) one(cublasLtMatmulPreference_t) \
                  one(cublasLtMatrixLayout_t) one(cudaStream_t)
template <class T>
inline constexpr const char* object_type = nullptr;
#define DUET_OBJECT(type) \
  template <>             \
  inline constexpr const char* object_type<type> = #type;
DUET_OBJECTS(DUET_OBJECT)
#undef DUET_OBJECT

template <class T>
inline constexpr const char* pointed_type = "void";
#define DUET_POINTED(type) \
  template <>              \
  inline constexpr const char* pointed_type<type> = #type;
DUET_POINTED(float)
DUET_POINTED(int)
DUET_POINTED(size_t)
DUET_POINTED(cufftComplex)
#undef DUET_POINTED

template <class T>
inline constexpr bool is_result = std::is_same_v<T, cudnnConvolutionFwdAlgoPerf_t> ||
                                  std::is_same_v<T, cudnnConvolutionBwdDataAlgoPerf_t> ||
                                  std::is_same_v<T, cudnnConvolutionBwdFilterAlgoPerf_t> ||
                                  std::is_same_v<T, cublasLtMatmulHeuristicResult_t>;

/// What else of a call an argument's meaning depends on.
struct Situation {
  std::string function;
  bool complex = false;  // alpha and beta are complex numbers
  size_t bytes = 0;      // of what `buf` points to
  // Of an attribute of the graph API, what `arrayOfElements` points to.
  cudnnBackendAttributeType_t type = CUDNN_TYPE_BOOLEAN;
  int64_t count = 0;
};

inline bool begins_with(const std::string& text, const char* begin) {
  return text.rfind(begin, 0) == 0;
}

/// Whether it points to memory, and that is not the GPU's.
bool is_on_host(const void* memory);

/// Of those that Duet sets; enum_name() looks at the first values of an enum alone.
std::string attribute_name(cudnnBackendAttributeName_t name);
/// {"type": of an element in C++, "all": its values}. Of pointers those to the host's memory are the
/// floats there.
Json attribute_values(cudnnBackendAttributeType_t type, int64_t count, const void* values);

/// {"name", "kind", "type", "value"}. Kinds: object (a library's, by its token), made (an object that
/// the call makes), enum (by its name), number, scalar (a number that the library reads on the host),
/// memory (of the device, by its address), written (a number that the call writes), numbers, bytes (of
/// an attribute), values (of an attribute of cuDNN's graph API: {"type", "all"}), algorithm (of
/// cuBLASLt), results (of a question).
template <class T>
Json describe(const std::string& name, const T& value, const Situation& call) {
  const auto is = [&](const char* kind, const std::string& type, Json json) {
    return Json{{"name", name}, {"kind", kind}, {"type", type}, {"value", std::move(json)}};
  };
  if constexpr (std::is_same_v<T, cufftHandle>) {
    if (name == "plan") return is("object", "cufftHandle", std::to_string(value));
  }
  if constexpr (std::is_same_v<T, cudnnBackendAttributeName_t>) {
    return is("enum", "cudnnBackendAttributeName_t", attribute_name(value));
  }
  if (begins_with(call.function, "cudnnBackend")) {
    const char* const type = "cudnnBackendDescriptor_t";
    if constexpr (std::is_same_v<T, cudnnBackendDescriptor_t*>) {
      return is("made", type, backend_token(*value, true));
    } else if constexpr (std::is_same_v<T, int64_t*>) {
      return is("written", "int64_t", *value);
    } else if constexpr (std::is_same_v<T, const void*> || std::is_same_v<T, void*>) {
      if (name != "arrayOfElements") return is("object", type, backend_token(value));
      if (call.function != "cudnnBackendSetAttribute") return is("results", "", nullptr);
      return is("values", "", attribute_values(call.type, call.count, value));
    }
  }
  if constexpr (object_type<T> != nullptr) {
    return is("object", object_type<T>, text_of(value));
  } else if constexpr (std::is_enum_v<T>) {
    return is("enum", std::string(enum_type<T>()), enum_name(value));
  } else if constexpr (std::is_arithmetic_v<T>) {
    return is("number", "", value);
  } else {
    using Pointed = std::remove_const_t<std::remove_pointer_t<T>>;
    if constexpr (object_type<Pointed> != nullptr) {
      return is("made", object_type<Pointed>, text_of(*value));
    } else if constexpr (is_result<Pointed>) {
      return is("results", "", nullptr);
    } else if constexpr (std::is_same_v<Pointed, cublasLtMatmulAlgo_t>) {
      Json words = Json::array();
      if (value) {
        for (const uint64_t word : value->data) words.push_back(word);
      }
      return is("algorithm", "", words);
    } else {
      if (begins_with(name, "alpha") || begins_with(name, "beta")) {
        const auto* numbers = reinterpret_cast<const float*>(value);
        if (call.complex) return is("scalar", "cuComplex", {numbers[0], numbers[1]});
        return is("scalar", "float", numbers[0]);
      }
      if (name == "buf") {
        const auto* bytes = reinterpret_cast<const unsigned char*>(value);
        return is("bytes", "", std::vector<int>(bytes, bytes + call.bytes));
      }
      if constexpr (std::is_same_v<T, int*>) {
        if (name == "handle") return is("made", "cufftHandle", std::to_string(*value));
        if (name == "n" || name == "inembed" || name == "onembed") {
          return is("numbers", "int", {value[0], value[1]});
        }
      }
      if constexpr (std::is_same_v<T, int*> || std::is_same_v<T, size_t*>) {
        return is("written", pointed_type<Pointed>, value ? Json(*value) : Json());
      }
      const bool constant = std::is_const_v<std::remove_pointer_t<T>>;
      Json json = is("memory", pointed_type<Pointed>, text_of(value));
      json["constant"] = constant;
      return json;
    }
  }
}

std::vector<std::string> names_in(const std::string& list);

/// The answer in place of a library on a GPU that is not there.
void answer_any(const std::string& name, int* number);
void answer_any(const std::string& name, size_t* bytes);
void answer_any(const std::string& name, int64_t* number);
void answer_any(const std::string& name, cudnnBackendDescriptor_t* descriptor);
void answer_any(const std::string& name, cublasHandle_t* handle);
void answer_any(const std::string& name, cudnnHandle_t* handle);
void answer_any(const std::string& name, cudnnConvolutionFwdAlgoPerf_t* results);
void answer_any(const std::string& name, cudnnConvolutionBwdDataAlgoPerf_t* results);
void answer_any(const std::string& name, cudnnConvolutionBwdFilterAlgoPerf_t* results);
void answer_any(const std::string& name, cublasLtMatmulHeuristicResult_t* results);
template <class T>
void answer_any(const std::string&, const T&) {}

/// Descriptors are the host's alone: what names no handle goes to the library in any case, but
/// where `asks_it_all` (cuFFT; cuDNN's graph API, whose descriptors hold a handle).
template <class... T>
constexpr bool needs_gpu(bool asks_it_all) {
  return asks_it_all || ((std::is_same_v<T, cudnnHandle_t> || std::is_same_v<T, cudnnHandle_t*> ||
                          std::is_same_v<T, cublasHandle_t> || std::is_same_v<T, cublasHandle_t*> ||
                          std::is_same_v<T, cublasLtHandle_t>) ||
                         ...);
}

template <class Next, class... T>
auto call(const char* function, const char* list, Next* next, std::tuple<T&...> arguments) {
  using Result = decltype(std::apply(next, arguments));
  if (depth > 0) return std::apply(next, arguments);
  const Inside inside;
  const std::vector<std::string> names = names_in(list);
  Situation situation{.function = function};
  size_t i = 0;
  const auto look = [&](const auto& value) {
    const std::string& name = names[i++];
    if constexpr (std::is_same_v<decltype(value), const size_t&>) {
      if (name == "sizeInBytes") situation.bytes = value;
    }
    if constexpr (std::is_same_v<decltype(value), const cudaDataType&>) {
      situation.complex |= value == CUDA_C_32F;
    }
    if constexpr (std::is_same_v<decltype(value), const cudnnBackendAttributeType_t&>) {
      situation.type = value;
    }
    if constexpr (std::is_same_v<decltype(value), const int64_t&>) {
      if (name == "elementCount") situation.count = value;
    }
  };
  std::apply([&](const auto&... value) { (look(value), ...); }, arguments);

  Result result{};
  if (stands_in() && needs_gpu<std::remove_const_t<T>...>(begins_with(function, "cufft") ||
                                                          begins_with(function, "cudnnBackend"))) {
    i = 0;
    std::apply([&](auto&... value) { (answer_any(names[i++], value), ...); }, arguments);
  } else {
    result = std::apply(next, arguments);
  }
  Json record = {{"call", function}, {"status", static_cast<int>(result)}};
  Json& described = record["arguments"] = Json::array();
  i = 0;
  std::apply(
      [&](const auto&... value) {
        (described.push_back(describe(names[i++], value, situation)), ...);
      },
      arguments);
  add(std::move(record));
  return result;
}

}  // namespace duet::recorder
