#include "recorder.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>

namespace duet::recorder {
namespace {

struct Records {
  std::mutex mutex;
  std::string lines;  // a JSON object each
};

// Never destroyed: the program's own static objects may call libraries until its end.
Records& records() {
  static Records* const all = new Records;
  return *all;
}

}  // namespace

void* next_symbol(const char* name) {
  void* const symbol = dlsym(RTLD_NEXT, name);
  if (symbol) return symbol;
  std::fprintf(stderr, "recorder: no library behind it has %s\n", name);
  std::abort();
}

bool stands_in() {
  static const bool without_gpu = [] {
    const Inside inside;
    int count = 0;
    const auto ask = next_of<cudaError_t(int*)>("cudaGetDeviceCount");
    return ask(&count) != cudaSuccess || count == 0;
  }();
  return without_gpu;
}

void add(Json record) {
  Records& all = records();
  const std::lock_guard lock(all.mutex);
  all.lines += record.dump() + "\n";
}

std::string text_of(const void* address) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", address);
  return address ? text : "";
}

std::string backend_token(const void* descriptor, bool made) {
  static std::mutex mutex;
  static auto* const numbers = new std::map<const void*, int>;
  static int last = 0;
  if (!descriptor) return "";
  const std::lock_guard lock(mutex);
  if (made) (*numbers)[descriptor] = ++last;
  return text_of(descriptor) + "#" + std::to_string((*numbers)[descriptor]);
}

std::string attribute_name(cudnnBackendAttributeName_t name) {
#define DUET_NAMED(attribute) \
  case attribute:             \
    return #attribute;
  switch (name) {
    DUET_NAMED(CUDNN_ATTR_CONVOLUTION_COMP_TYPE)
    DUET_NAMED(CUDNN_ATTR_CONVOLUTION_CONV_MODE)
    DUET_NAMED(CUDNN_ATTR_CONVOLUTION_DILATIONS)
    DUET_NAMED(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)
    DUET_NAMED(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)
    DUET_NAMED(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)
    DUET_NAMED(CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS)
    DUET_NAMED(CUDNN_ATTR_ENGINECFG_ENGINE)
    DUET_NAMED(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES)
    DUET_NAMED(CUDNN_ATTR_ENGINEHEUR_MODE)
    DUET_NAMED(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
    DUET_NAMED(CUDNN_ATTR_ENGINEHEUR_RESULTS)
    DUET_NAMED(CUDNN_ATTR_ENGINE_GLOBAL_INDEX)
    DUET_NAMED(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE)
    DUET_NAMED(CUDNN_ATTR_ENGINE_OPERATION_GRAPH)
    DUET_NAMED(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
    DUET_NAMED(CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
    DUET_NAMED(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
    DUET_NAMED(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE)
    DUET_NAMED(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE)
    DUET_NAMED(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT)
    DUET_NAMED(CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
    DUET_NAMED(CUDNN_ATTR_OPERATIONGRAPH_OPS)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X)
    DUET_NAMED(CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_DXDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_DYDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_MODE)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_BWD_XDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_MODE)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_PHASE)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_XDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_NORM_FWD_YDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_POINTWISE_DXDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_POINTWISE_DYDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
    DUET_NAMED(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)
    DUET_NAMED(CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
    DUET_NAMED(CUDNN_ATTR_POINTWISE_MATH_PREC)
    DUET_NAMED(CUDNN_ATTR_POINTWISE_MODE)
    DUET_NAMED(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION)
    DUET_NAMED(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
    DUET_NAMED(CUDNN_ATTR_TENSOR_DATA_TYPE)
    DUET_NAMED(CUDNN_ATTR_TENSOR_DIMENSIONS)
    DUET_NAMED(CUDNN_ATTR_TENSOR_IS_BY_VALUE)
    DUET_NAMED(CUDNN_ATTR_TENSOR_IS_VIRTUAL)
    DUET_NAMED(CUDNN_ATTR_TENSOR_STRIDES)
    DUET_NAMED(CUDNN_ATTR_TENSOR_UNIQUE_ID)
    DUET_NAMED(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
    DUET_NAMED(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
    DUET_NAMED(CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
    default:
      return "static_cast<cudnnBackendAttributeName_t>(" + std::to_string(name) + ")";
  }
#undef DUET_NAMED
}

namespace {

template <class T, class Text>
Json values_as(const char* type, int64_t count, const void* values, Text text) {
  Json all = Json::array();
  for (int64_t i = 0; i < count; ++i) all.push_back(text(static_cast<const T*>(values)[i]));
  return {{"type", type}, {"all", all}};
}
template <class E>
Json enums(int64_t count, const void* values) {
  static const std::string type(enum_type<E>());
  return values_as<E>(type.c_str(), count, values, [](E value) { return enum_name(value); });
}

}  // namespace

Json attribute_values(cudnnBackendAttributeType_t type, int64_t count, const void* values) {
  const auto itself = [](auto value) { return value; };
  switch (type) {
    case CUDNN_TYPE_HANDLE:
      return values_as<void*>("cudnnHandle_t", count, values, text_of);
    case CUDNN_TYPE_VOID_PTR:
      return values_as<void*>("void*", count, values, [](const void* one) {
        return is_on_host(one) ? Json(*static_cast<const float*>(one)) : Json(text_of(one));
      });
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return values_as<void*>("cudnnBackendDescriptor_t", count, values,
                              [](const void* one) { return backend_token(one); });
    case CUDNN_TYPE_BOOLEAN:
      return values_as<bool>("bool", count, values, itself);
    case CUDNN_TYPE_INT64:
      return values_as<int64_t>("int64_t", count, values, itself);
    case CUDNN_TYPE_FLOAT:
      return values_as<float>("float", count, values, itself);
    case CUDNN_TYPE_DATA_TYPE:
      return enums<cudnnDataType_t>(count, values);
    case CUDNN_TYPE_CONVOLUTION_MODE:
      return enums<cudnnConvolutionMode_t>(count, values);
    case CUDNN_TYPE_POINTWISE_MODE:
      return enums<cudnnPointwiseMode_t>(count, values);
    case CUDNN_TYPE_HEUR_MODE:
      return enums<cudnnBackendHeurMode_t>(count, values);
    case CUDNN_TYPE_KNOB_TYPE:
      return enums<cudnnBackendKnobType_t>(count, values);
    case CUDNN_TYPE_NORM_MODE:
      return enums<cudnnBackendNormMode_t>(count, values);
    case CUDNN_TYPE_NORM_FWD_PHASE:
      return enums<cudnnBackendNormFwdPhase_t>(count, values);
    case CUDNN_TYPE_NAN_PROPOGATION:
      return enums<cudnnNanPropagation_t>(count, values);
    default:
      std::fprintf(stderr, "recorder: attribute_values() does not know type %d\n", type);
      std::abort();
  }
}

/// "(handle, xDesc)" as two words.
std::vector<std::string> names_in(const std::string& list) {
  std::vector<std::string> names(1);
  for (const char letter : list) {
    if (letter == ',') names.emplace_back();
    if (std::isalnum(static_cast<unsigned char>(letter)) || letter == '_') names.back() += letter;
  }
  return names;
}

void answer_any(const std::string& name, int* number) {
  static std::atomic<int> plans = 1;
  if (name == "handle") *number = plans++;
  if (name == "returnedAlgoCount" || name == "returnAlgoCount") *number = 1;
  if (name == "version") *number = CUBLAS_VERSION;
}

void answer_any(const std::string&, size_t* bytes) { *bytes = 0; }

void answer_any(const std::string&, int64_t* number) { *number = 0; }

void answer_any(const std::string&, cudnnBackendDescriptor_t* descriptor) {
  *descriptor = std::malloc(16);
}

void answer_any(const std::string&, cublasHandle_t* handle) {
  *handle = static_cast<cublasHandle_t>(std::malloc(16));
}

void answer_any(const std::string&, cudnnHandle_t* handle) {
  *handle = static_cast<cudnnHandle_t>(std::malloc(16));
}

namespace {

template <class Results, class Algorithm>
void answer_deterministic(Results* results, Algorithm algorithm) {
  *results = {};
  results->algo = algorithm;
  results->determinism = CUDNN_DETERMINISTIC;
}

}  // namespace

void answer_any(const std::string&, cudnnConvolutionFwdAlgoPerf_t* results) {
  answer_deterministic(results, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM);
}
void answer_any(const std::string&, cudnnConvolutionBwdDataAlgoPerf_t* results) {
  answer_deterministic(results, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1);
}
void answer_any(const std::string&, cudnnConvolutionBwdFilterAlgoPerf_t* results) {
  answer_deterministic(results, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1);
}
void answer_any(const std::string&, cublasLtMatmulHeuristicResult_t* results) {
  *results = {};
  results->state = CUBLAS_STATUS_SUCCESS;
}

}  // namespace duet::recorder

extern "C" {

/// Writes a line into the record.
void duet_recorder_mark(const char* text) { duet::recorder::add({{"mark", text}}); }

/// All that was recorded, a JSON object a line, and forgets it. Valid until the next call.
const char* duet_recorder_take() {
  static std::string taken;
  duet::recorder::Records& all = duet::recorder::records();
  const std::lock_guard lock(all.mutex);
  taken.swap(all.lines);
  all.lines.clear();
  return taken.c_str();
}

int duet_recorder_stands_in() { return duet::recorder::stands_in(); }

}  // extern "C"
