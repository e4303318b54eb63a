// What every lesson needs beside the libraries: checked calls, cuDNN's handle and
// descriptors, memory on the GPU, a comparison of every value with what a plain loop gives, times, and
// exit codes:
//   0  all values were right, and what had to fail failed as it should
//   1  a value was wrong, a call failed, or one that had to fail did not
//   3  there is no GPU, or it is too old for the subject; the reason is printed
//
// Include it after the header of the library that the lesson is about.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace lesson {

enum ExitCode { kRight = 0, kWrong = 1, kNoGpu = 3 };

inline int compared = 0, wrong = 0,
           refused = 0;  // comparisons, those that failed, errors on purpose

// ---- errors: text() and same_error() for the status of each library that is included ----

inline std::string text(cudaError_t status) {
  return std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
}
template <class Status>
bool same_error(Status a, Status b) {
  return a == b;
}
template <class Status>
bool succeeded(Status status) {
  return status == Status{};  // success is 0 in every library
}
#ifdef CUDA_VERSION  // cuda.h, the driver
inline std::string text(CUresult status) {
  return "CUresult " + std::to_string(status) + " (cuda.h names it)";
}
#endif
#ifdef CUDNN_VERSION
inline std::string text(cudnnStatus_t status) {
  char message[512] = {};
  cudnnGetLastErrorString(message,
                          sizeof message);  // of this thread; often the condition that held
  return std::string(cudnnGetErrorString(status)) + (message[0] ? ": " : "") + message;
}
/// cuDNN divides its codes more finely with every release; the thousands stay.
inline bool same_error(cudnnStatus_t a, cudnnStatus_t b) {
  return CUDNN_STATUS_CATEGORY(static_cast<int>(a)) == CUDNN_STATUS_CATEGORY(static_cast<int>(b));
}
#endif
#ifdef CUDNN_FRONTEND_VERSION  // its functions return a code with a message
inline std::string text(const cudnn_frontend::error_object& error) {
  return nlohmann::json(error.code).get<std::string>() + ": " + error.err_msg;
}
inline bool same_error(const cudnn_frontend::error_object& a, cudnn_frontend::error_code_t b) {
  return a.code == b;
}
inline bool succeeded(const cudnn_frontend::error_object& error) { return error.is_good(); }
#endif
#ifdef CUBLAS_VER_MAJOR
inline std::string text(cublasStatus_t status) { return cublasGetStatusName(status); }
#endif
#ifdef CURAND_VERSION
inline std::string text(curandStatus_t status) {
  return "curandStatus_t " + std::to_string(status) + " (curand.h names it)";
}
#endif
#ifdef CUFFT_VERSION
inline std::string text(cufftResult status) {
  return "cufftResult " + std::to_string(status) + " (cufft.h names it)";
}
#endif

template <class Status>
void check(const char* file, int line, const char* call, const Status& status) {
  if (succeeded(status)) return;
  std::printf("%s:%d: %s\n  -> %s\n", file, line, call, text(status).c_str());
  std::exit(kWrong);
}

template <class Status, class Error>
void should_fail(const char* file, int line, const char* call, const Status& status,
                 Error expected) {
  ++refused;
  std::printf("on purpose: %s\n  -> %s\n", call, text(status).c_str());
  if constexpr (std::is_same_v<Status, cudaError_t>) (void)cudaGetLastError();  // forgotten again
  if (same_error(status, expected)) return;
  ++wrong;
  std::printf("%s:%d: WRONG: expected error %d\n", file, line, static_cast<int>(expected));
}

/// Ends the program with the reason if a call fails.
#define CHECK(call) ::lesson::check(__FILE__, __LINE__, #call, (call))
/// Shows how a call fails that is wrong on purpose; counts a mistake if it does not, or otherwise.
#define SHOULD_FAIL(call, expected) \
  ::lesson::should_fail(__FILE__, __LINE__, #call, (call), (expected))

#ifdef CUDNN_VERSION
// ---- what cuDNN makes and destroys: its handle and descriptors ----

/// Made, and destroyed when it goes out of scope. It may stand wherever cuDNN wants a T.
template <class T, cudnnStatus_t (*create)(T*), cudnnStatus_t (*destroy)(T)>
class Owned {
 public:
  Owned() { CHECK(create(&value_)); }
  ~Owned() { (void)destroy(value_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator T() const { return value_; }
  T get() const { return value_; }

 private:
  T value_;
};
using Handle = Owned<cudnnHandle_t, cudnnCreate, cudnnDestroy>;
/// TensorDescriptor, FilterDescriptor, ...
#define DESCRIPTOR(Kind)                                                                   \
  using Kind##Descriptor = Owned<cudnn##Kind##Descriptor_t, cudnnCreate##Kind##Descriptor, \
                                 cudnnDestroy##Kind##Descriptor>
DESCRIPTOR(Tensor);
DESCRIPTOR(Filter);
DESCRIPTOR(Convolution);
DESCRIPTOR(Pooling);
DESCRIPTOR(Activation);
DESCRIPTOR(OpTensor);
DESCRIPTOR(ReduceTensor);
DESCRIPTOR(Attn);
DESCRIPTOR(Dropout);
DESCRIPTOR(RNN);
DESCRIPTOR(RNNData);

// ---- the same for the graph API (lessons 13 and 17), whose descriptors are of one type ----

// region part
inline cudnnBackendAttributeType_t type_of(bool) { return CUDNN_TYPE_BOOLEAN; }
inline cudnnBackendAttributeType_t type_of(int64_t) { return CUDNN_TYPE_INT64; }
inline cudnnBackendAttributeType_t type_of(float) { return CUDNN_TYPE_FLOAT; }
inline cudnnBackendAttributeType_t type_of(cudnnHandle_t) { return CUDNN_TYPE_HANDLE; }
inline cudnnBackendAttributeType_t type_of(cudnnDataType_t) { return CUDNN_TYPE_DATA_TYPE; }
inline cudnnBackendAttributeType_t type_of(cudnnConvolutionMode_t) {
  return CUDNN_TYPE_CONVOLUTION_MODE;
}
inline cudnnBackendAttributeType_t type_of(cudnnPointwiseMode_t) {
  return CUDNN_TYPE_POINTWISE_MODE;
}
inline cudnnBackendAttributeType_t type_of(cudnnBackendHeurMode_t) { return CUDNN_TYPE_HEUR_MODE; }
inline cudnnBackendAttributeType_t type_of(cudnnBackendDescriptor_t) {
  return CUDNN_TYPE_BACKEND_DESCRIPTOR;
}

/// One descriptor: made, given its attributes, finalized; then it cannot change any more.
class Part {
 public:
  using Attribute = cudnnBackendAttributeName_t;

  explicit Part(cudnnBackendDescriptorType_t type) {
    CHECK(cudnnBackendCreateDescriptor(type, &descriptor_));
  }
  Part(Part&& other) noexcept { *this = std::move(other); }
  Part& operator=(Part&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Part() {
    if (descriptor_) (void)cudnnBackendDestroyDescriptor(descriptor_);
  }
  cudnnBackendDescriptor_t get() const { return descriptor_; }

  template <class T>
  Part&& set(Attribute name, T value, cudnnBackendAttributeType_t type = type_of(T{})) {
    CHECK(cudnnBackendSetAttribute(descriptor_, name, type, 1, &value));
    return std::move(*this);
  }
  template <class T>
  Part&& set(Attribute name, const std::vector<T>& values,
             cudnnBackendAttributeType_t type = type_of(T{})) {
    CHECK(cudnnBackendSetAttribute(descriptor_, name, type, std::ssize(values), values.data()));
    return std::move(*this);
  }
  Part&& finalize() {
    CHECK(cudnnBackendFinalize(descriptor_));
    return std::move(*this);
  }
  /// What a finalized descriptor knows: a number, or other descriptors, up to `most`.
  int64_t number(Attribute name) const {
    int64_t value = 0, count = 0;
    CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_INT64, 1, &count, &value));
    return value;
  }
  std::vector<Part> parts(Attribute name, cudnnBackendDescriptorType_t type, int64_t most) const {
    std::vector<Part> all;
    std::vector<cudnnBackendDescriptor_t> raw;  // made here, filled by cuDNN
    while (std::ssize(all) < most) raw.push_back(all.emplace_back(type).get());
    int64_t count = 0;
    CHECK(cudnnBackendGetAttribute(descriptor_, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, most, &count,
                                   raw.data()));
    while (std::ssize(all) > count) all.pop_back();
    return all;
  }

 private:
  cudnnBackendDescriptor_t descriptor_ = nullptr;
};
// end part

// region execute
/// Which memory each tensor's number stands for, this time; then the plan runs on it.
inline cudnnStatus_t execute(cudnnHandle_t cudnn, const Part& plan, const std::vector<int64_t>& ids,
                             const std::vector<void*>& memory, void* workspace) {
  const Part pack = Part(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
                        .set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
                        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, memory, CUDNN_TYPE_VOID_PTR)
                        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace, CUDNN_TYPE_VOID_PTR)
                        .finalize();
  return cudnnBackendExecute(cudnn, plan.get(), pack.get());
}
// end execute

/// The number of a configuration's engine.
inline long long engine_of(const Part& configuration) {
  return configuration.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1)
      .at(0)
      .number(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}
#endif

// ---- memory and values ----

/// Memory of the GPU for so many values. It begins as bytes of 0xff, which are NaN in floating
/// point: an output that nobody wrote is seen.
template <class T>
class Array {
 public:
  explicit Array(size_t count) : count_(count) {
    if (count == 0) return;
    CHECK(cudaMalloc(&data_, count * sizeof(T)));
    CHECK(cudaMemset(data_, 0xff, count * sizeof(T)));
    wait();
  }
  explicit Array(const std::vector<T>& values) : Array(values.size()) {
    CHECK(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice));
    wait();
  }
  ~Array() { (void)cudaFree(data_); }
  Array(const Array&) = delete;
  Array& operator=(const Array&) = delete;

  T* data() const { return data_; }
  size_t size() const { return count_; }
  size_t bytes() const { return count_ * sizeof(T); }
  /// The values, once the GPU has done all that was queued.
  std::vector<T> host() const {
    std::vector<T> values(count_);
    wait();
    CHECK(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return values;
  }

 private:
  // cudaMemset and a short cudaMemcpy may return before they are done, and a stream with
  // cudaStreamNonBlocking does not wait for them.
  static void wait() { CHECK(cudaDeviceSynchronize()); }

  T* data_ = nullptr;
  size_t count_ = 0;
};

/// Values from -1 up to 1, the same on every machine.
inline std::vector<float> random_values(size_t count, uint32_t seed) {
  std::vector<float> values(count);
  uint32_t state = seed * 2654435761u + 1;
  for (float& value : values) {
    state = state * 1664525u + 1013904223u;
    value = static_cast<float>(static_cast<int32_t>(state) >> 8) / 8388608.0f;
  }
  return values;
}

#ifdef __CUDA_FP16_H__  // values rounded to half precision, and back
inline std::vector<__half> halves(const std::vector<float>& values) {
  std::vector<__half> rounded;
  for (const float value : values) rounded.push_back(__float2half(value));
  return rounded;
}
inline std::vector<float> floats(const std::vector<__half>& values) {
  std::vector<float> wide;
  for (const __half value : values) wide.push_back(__half2float(value));
  return wide;
}
#endif

/// Largest difference between values; infinite where one alone is NaN.
template <class T, class U>
double largest_difference(const std::vector<T>& got, const std::vector<U>& expected,
                          size_t* where = nullptr) {
  double largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double a = static_cast<double>(got[i]), b = static_cast<double>(expected[i]);
    double difference = std::fabs(a - b);
    if (a == b || (std::isnan(a) && std::isnan(b))) difference = 0;  // infinities, NaN for NaN
    if (std::isnan(difference)) difference = INFINITY;
    if (difference > largest) {
      largest = difference;
      if (where) *where = i;
    }
  }
  return largest;
}

/// Every value of the GPU against the plain loop's: none may differ by more than `allowed`.
template <class T, class U>
void compare(const char* name, const std::vector<T>& got, const std::vector<U>& expected,
             double allowed = 0) {
  ++compared;
  if (got.size() != expected.size() || got.empty()) {
    ++wrong;
    std::printf("%s: WRONG: %zu values, expected %zu\n", name, got.size(), expected.size());
    return;
  }
  size_t i = 0;
  const double largest = largest_difference(got, expected, &i);
  if (largest <= allowed) {
    std::printf("%s: %zu values agree with the plain loop; largest difference %.2g, allowed %.2g\n",
                name, got.size(), largest, allowed);
    return;
  }
  ++wrong;
  std::printf("%s: WRONG: value %zu is %.9g, expected %.9g (allowed difference %.2g)\n", name, i,
              static_cast<double>(got[i]), static_cast<double>(expected[i]), allowed);
}

/// A fact that must hold.
inline void expect(const char* fact, bool holds) {
  ++compared;
  if (!holds) ++wrong;
  std::printf("%s: %s\n", fact, holds ? "yes" : "NO, which is WRONG");
}

/// Seconds on the host's clock, which runs while the GPU works.
inline double host_seconds() {
  using Clock = std::chrono::steady_clock;
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

/// Microseconds of one call: the median of 9 rounds of `calls` calls, after one that warms up.
template <class Call>
double microseconds(Call call, cudaStream_t stream = nullptr, int calls = 20) {
  cudaEvent_t begin, end;
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  call();
  std::vector<float> rounds(9);
  for (float& milliseconds : rounds) {
    CHECK(cudaEventRecord(begin, stream));
    for (int i = 0; i < calls; ++i) call();
    CHECK(cudaEventRecord(end, stream));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&milliseconds, begin, end));
  }
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(end));
  std::sort(rounds.begin(), rounds.end());
  return 1000.0 * rounds[rounds.size() / 2] / calls;
}

// ---- the program ----

/// The oldest GPU that will do, by its compute capability.
struct Needs {
  int major = CUDART_VERSION >= 13000 ? 7 : 5, minor = CUDART_VERSION >= 13000 ? 5 : 0;
  const char* because = "this CUDA toolkit and its libraries run on nothing older";
  bool exactly = false;  // and no newer one
};

/// Why a GPU of this compute capability cannot run the lesson; empty if it can.
inline std::string unmet(const Needs& needs, int major, int minor) {
  const int has = 10 * major + minor, wants = 10 * needs.major + needs.minor;
  if (needs.exactly ? has == wants : has >= wants) return "";
  char reason[256];
  std::snprintf(reason, sizeof reason,
                "compute capability %d.%d will not do; this lesson needs %d.%d%s: %s", major, minor,
                needs.major, needs.minor, needs.exactly ? "" : " or newer", needs.because);
  return reason;
}

/// A lesson's main(): says what it will do, does it where there is a GPU, and gives the exit code.
inline int run(const char* title, const char* story, void (*body)(), Needs needs = {}) {
  std::setvbuf(stdout, nullptr, _IOLBF, 1 << 16);
  std::printf("%s\n%s\n\n", title, story);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    std::printf(
        "no GPU (%s). Needed: an NVIDIA GPU of compute capability %d.%d%s, and a driver for "
        "CUDA %d.%d.\n",
        text(status).c_str(), needs.major, needs.minor, needs.exactly ? "" : " or newer",
        CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
    return kNoGpu;
  }
  cudaDeviceProp gpu;
  CHECK(cudaGetDeviceProperties(&gpu, 0));
  std::printf("GPU: %s, compute capability %d.%d\n", gpu.name, gpu.major, gpu.minor);
  if (const std::string reason = unmet(needs, gpu.major, gpu.minor); !reason.empty()) {
    std::printf("this GPU cannot: %s\n", reason.c_str());
    return kNoGpu;
  }
  body();
  CHECK(cudaDeviceSynchronize());
  if (compared == 0) std::printf("WRONG: nothing was compared\n");
  if (wrong != 0 || compared == 0) {
    std::printf("\nwrong: %d of %d comparisons and %d errors on purpose\n", wrong, compared,
                refused);
    return kWrong;
  }
  std::printf("\nright: %d comparisons, %d errors on purpose\n", compared, refused);
  return kRight;
}

}  // namespace lesson
