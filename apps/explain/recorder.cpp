#include "recorder.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
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
